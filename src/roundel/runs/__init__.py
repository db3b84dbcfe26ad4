"""Runs that are kept: begun, looked at, steered, gone on with, forked and compared, from any process."""
