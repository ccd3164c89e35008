"""The passes, one file each; `pipeline.pass_registry` finds them without importing them."""
