"""The model on trial: what it predicts of many plans, and what measuring and simulating them says.

`sample` draws plans. `measure` times them in a process of their own (`process`, `session`),
`volumes` runs the memory accesses of their code through simulated caches (`trace`, `simulator`);
both write lines of JSON (`records`). `judgement` and `statistics` compare, `document` reports.
"""
