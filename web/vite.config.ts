import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `make page-dev` sets the address of a server; the page itself never needs it.
const server = process.env.ROUNDEL_SERVER ?? "http://127.0.0.1:8420";

// What every page needs is one file: small ones compress worse, and each costs a request.
const PACKAGES = ["react/", "react-dom/", "scheduler/", "wouter", "regexparam", "zustand/esm/(vanilla|react).mjs"];
const QUERIES = "@tanstack/(query-core|react-query)/(?!.*(infiniteQueryObserver|useInfinite|useMutation))";
const PARTS = ["api/(client|queries|requests)\\.", "i18n/", "styles/(base|fonts|tokens)", "app/(App|TopBar|app|keys|leaving|messages|pages|theme|top_bar)\\.", "live/(connection|address_parts)\\.", "ui/(Button|GuardBar|Icon|State|Status|later|toasts|button|guard_bar|state|status|toasts)\\."];
const FRAME = new RegExp(`rolldown/runtime|web/node_modules/(${[...PACKAGES, QUERIES].join("|")})|/src/(${PARTS.join("|")})`);
const EARLY = /\/src\/(early|i18n\/since|api\/(client|requests)|pages\/runs\/(filter|requests))\.ts/;

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/roundel/server/page",
    emptyOutDir: true,
    // The content security policy has no `data:` for scripts and fonts.
    assetsInlineLimit: 0,
    // For the links in the document (roundel/server/preloads.py) and the test of sizes (tests/web/test_build.py);
    // the server does not send it.
    manifest: "manifest.json",
    target: "es2022",
    // Browsers of this target preload modules themselves.
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
    rolldownOptions: {
      input: { index: "index.html", early: "src/early.ts" },
      output: {
        codeSplitting: {
          groups: [
            { name: "early", test: EARLY, priority: 2 },
            { name: "frame", test: FRAME, priority: 1 },
          ],
        },
      },
    },
  },
  // React has what the shim is for.
  resolve: { alias: [{ find: /^use-sync-external-store\/shim(\/index\.js)?$/, replacement: "react" }] },
  worker: { format: "es" },
  server: { proxy: { "/api": server, "/login": server } },
  // Files that need a document say so: to make one takes longer than most tests. For the same reason files share
  // workers.
  test: { include: ["src/**/*.test.{ts,tsx}"], isolate: false },
});
