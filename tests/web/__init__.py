"""Tests of the page. A package, so that the browser is closed before the tests of other folders: as long as
it is open, its event loop runs, and no test can run one of its own."""
