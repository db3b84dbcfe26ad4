import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { queryClient } from "./api/queries";
import { App } from "./app/App";
import { aroundNavigation } from "./app/leaving";
import { loadPage } from "./app/pages";
import "./styles/base.css";

function draw(): void {
  createRoot(document.getElementById("root") as HTMLElement).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <Router aroundNav={aroundNavigation}>
          <App />
        </Router>
      </QueryClientProvider>
    </StrictMode>,
  );
}

// No `await` here: with one, the build splits the page into many more files.
void Promise.resolve(loadPage(location.pathname)).then(draw);

// Letters beyond Western European ones; see styles/fonts.css.
addEventListener("load", () => void import("./styles/more_fonts.css"), { once: true });
