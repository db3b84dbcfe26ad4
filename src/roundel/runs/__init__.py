"""The service layer: starts, follows, controls, forks, compares and prunes runs, of any process."""
