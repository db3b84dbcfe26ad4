"""What a workflow is: typed nodes, edges and conditions, read from a file or built in Python."""
