"""The layout of a workflow with its loops: one for the command line, the server and the editor.

    plan ─► nesting ─► layout (ranks, routes) ─► assembly.draw ─► drawing: data ─► svg
                  └──► tree, mermaid

    nesting    graphs contain nodes and loops, loops contain nodes and loops
    labels     the texts of a drawing, and their widths
    layout     frames: a graph or a loop with its parts in ranks
    ranks      the order of items in a rank, and their x
    routes     the curves of edges through frames
    assembly   reads coordinates off the frames
    drawing    the result, as data
    svg, mermaid, tree   formats

The result is data and not a picture, so that a page can draw it without a layout library of its own
(docs/decisions/0026-drawings-are-data.md). A plan may be that of a draft (workflow/graph_reader.py):
whatever could be read of a file with errors is drawn, and each problem is shown at its node, edge or
loop.
"""
