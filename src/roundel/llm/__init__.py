"""Models, tools and MCP servers behind the protocols of nodes/services.py; scripts that replace them."""
