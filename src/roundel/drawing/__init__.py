"""The layout of a workflow with its loops, one for the command line, the server and the editor.

    plan ─► nesting ─► layout (frames, ranks, routes) ─► assembly.draw ─► drawing: data ─► svg
                  └──► tree, mermaid

`assembly.draw` gives coordinates, sizes and routes as data (drawing.py); `svg`, `mermaid` and `tree` are the
formats. A plan may be that of a draft (workflow/graph_reader.py): what could be read of a file is drawn, and
its problems are shown at what they are about. Nothing of roundel but `plan` and `workflow` is imported here.
"""
