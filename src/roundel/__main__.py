from roundel.cli import main

main()
