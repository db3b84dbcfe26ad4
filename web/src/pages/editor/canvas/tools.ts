// What the parts of the canvas and of the outline do things with. The object changes only with language and rights.
import { createContext, useContext, useMemo, useRef, type RefObject } from "react";
import type { ReactFlowInstance } from "@xyflow/react";
import type { SceneEdge, SceneNode } from "../../../graph/scene";
import { useMessages } from "../../../i18n/messages";
import { useEditor, useEditorStore, type EditorStore } from "../store";
import { commandsOf, type Commands } from "./commands";
import { dialogsOf, type Dialogs } from "./dialogs";
import { messages, type CanvasTexts } from "./messages";
import { useNodeTypes, type NodeType } from "./node_types";
import { useUiStore, type UiStore } from "./ui";

export type Flow = ReactFlowInstance<SceneNode, SceneEdge>;

export interface Tools {
  editor: EditorStore;
  ui: UiStore;
  texts: CanvasTexts;
  types: readonly NodeType[];
  commands: Commands;
  dialogs: Dialogs;
  flow: RefObject<Flow | null>;
}

export const ToolsContext = createContext<Tools | null>(null);

export function useNewTools(): Tools {
  const editor = useEditorStore();
  const ui = useUiStore();
  const texts = useMessages(messages);
  const types = useNodeTypes();
  const mayEdit = !useEditor((state) => state.isReadOnly);
  const flow = useRef<Flow | null>(null);
  return useMemo(() => {
    const commands = commandsOf(editor, ui, texts, mayEdit);
    return { editor, ui, texts, types, commands, dialogs: dialogsOf(editor, ui, texts, types, commands), flow };
  }, [editor, ui, texts, types, mayEdit]);
}

export function useTools(): Tools {
  const tools = useContext(ToolsContext);
  if (tools === null) throw new Error("it is outside of the canvas and the outline");
  return tools;
}
