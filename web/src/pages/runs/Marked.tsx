/** A text in which `parts between backticks` are set as code. */
export function Marked({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}
