"""Past one machine: the same work on Ray, part by part; only this package imports ray."""
