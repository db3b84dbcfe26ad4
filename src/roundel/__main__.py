"""`python -m roundel`: the command line."""

from roundel.cli import main

main()
