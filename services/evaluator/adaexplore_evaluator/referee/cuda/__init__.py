"""Judging and timing on a real GPU."""
