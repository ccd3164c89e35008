"""Workloads, protocols and reports; not part of the installed package."""
