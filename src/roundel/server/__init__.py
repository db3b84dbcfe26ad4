"""The HTTP server: a thin client of the service layer. Imported by `roundel serve` only."""
