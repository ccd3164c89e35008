"""What validation.md says around its tables, but for `method.md`."""

INTRODUCTION = """\
# The model on trial

Written by `mopt-validate report`: every table and plot is made of the data that is kept beside it.
(Sections that tell of decisions and of experiments were written by hand, and say so.) The questions
are those of Sec. 9 of the MOpt paper (Li, Xu, Sukumaran-Rajam, Rountev and Sadayappan, "Analytical
Characterization and Design Space Exploration for Optimization of CNNs", ASPLOS 2021): how much
performance is lost by taking what the model likes best, how well its order of plans is that of
measuring, and how well it knows what moves between the caches.

To repeat all of it on one machine that does nothing else, for hours, or a small part of it in ten
minutes:

```console
$ make validate
$ make validate-smoke
```

Each trial is what `mopt-validate measure` writes on a host, with `--isa avx2` for AVX2 code,
`--operators testset`, `heldout` and `networks` for other operators than Table 1, `--layout
nhwc_hwcf` for images and filters with channels last. "Machines and versions" has what goes with
`--samples` and `--final-rounds`. `mopt-validate simulate` adds the volumes of its plans, on any
host. A name that ends in `-before` has the same trial, measured earlier. The comparison with others
is from `make bench-peers` and `mopt-bench suite --configurations a-cold`, and with `--operators
benchmarks/validation/networks.json` for those of `networks`. The data is in [{data}]({data}): every
plan, every run, in lines of JSON. `make validation-report` makes this document of it, with the
predictions of today's model.
"""

FIGURES = """\
## Figures to reach

The paper says of its own model that its choice among the sample loses at most 4.5% on any operator,
and at most 3% on all but two of 32, of plans that differ in tile sizes only; ours differ in
microkernels, loop orders and packing as well. All other limits are ours, from before the first
trial; what came later is how many of fewer operators may lose more (one of 16), and that volumes of
fewer than {least_volumes} plans are told, and not judged. Of a worst top-1 loss the standard error
stands beside it: nearer to the limit than twice that it may be on the other side next time. As the
fastest plan of all is nearly always one of the five candidates, the four rows on own plans and the
last row tell of the same differences. What is the slowest memory of a plan is what the model takes
for it, as it was asked for; "Data volumes" has those of which it is so when they are simulated, of
which the errors are larger. Of a trial that was measured twice the later one is shown, and "The
same plans once more" has what both lost.

Predictions here are those of today's model, also for trials by which it was mended.
"""

PROTOCOLS = {
    2: "From before caches were flushed in two steps and final rounds were spread: ballast alone "
    "was read, and the final rounds of an operator followed each other.",
    3: "From before ten plans of the sample met in final rounds for their times: the own plan, the "
    "other candidates and the reference were counted among the ten fastest, so that fewer of "
    "the sample did. The best sampled plan is the fastest of these.",
}
"""What is told of trials, by the number of the first protocol that does not have it."""

ORDERS = """\
## What the parts of the model are worth

The same plans in the order of simpler models: by the time to compute alone, which includes what
visits and partial register tiles cost, and by what the solver minimises, which counts tiles of
each level and nothing that caches keep beyond them. The last column is the loss, against all plans,
of what each would choose among the few candidates near the solver's best.
"""

TIMES = """\
Measured time divided by predicted time: the median, and 10% to 90% of the plans.
"""

ACCURACY = """\
## How accurate predictions have to be

Here measured times, each changed by a random error, stand for predictions. Errors are independent,
which those of the model are not. What is lost among the sample then, by the standard deviation of
their logarithms: means over {draws} draws, of the worst operator the median, and how often all four
figures of losses among the sample are reached. The
error of the model is that of plans that take up to {good} times as long as the best, less what all
of an operator have in common, the mean over the operators.
"""

MISSES = """\
## Plans that the model misjudges

Every choice that loses more than {usual:.0%}, beside the plan that beats it, and why. *Error*: by
how much a plan takes longer than predicted, beyond what other good sampled plans of the operator do
on average; *usual error*: the standard deviation of theirs.

- *May be noise*: it loses at most {noticeable:g} standard errors of what is lost.
- *The objective's*: predicted times prefer the plan that beats it; what the solver minimises, by
  which own plans are chosen, does not.
- *Too few good plans*: fewer than {enough} others, which cannot say what is usual.
- *An unusual error*: the choice takes longer than predicted, or the other plan less, by more than
  the interval that has 95% of plans with usual errors. That is for plans that nobody picked. These
  two were picked, as the ones predicted and measured best: of twenty plans with usual errors the
  fastest is so far off for about one operator in four.
- *Usual errors*: no more than that. Of plans with such errors the one that is predicted best is
  seldom the fastest ("How accurate predictions have to be").

Top-5 losses have the same causes: five others are predicted to be faster than the fastest plan.
"""

VOLUMES = """\
## Data volumes

Bytes that leave the cache named (L1: to and from registers), errors of predicted against simulated
volumes. *Where slowest* has the sampled plans whose slowest memory it is by prediction, which is
what the figure above asks for; a plan of which too little is predicted may be missing there, so
that beside it are those whose slowest memory it is by simulated volumes. Conflicts: volume / that
of fully associative caches.
"""

CHECKS = """\
Where it is said what valgrind counts, lines that were fetched in the simulation stand beside the
misses of machine code, of own plans with up to {most:,} accesses. It sees register spills and other
addresses, counts an access to two lines once, takes stores past the caches, as those of Y0 are, for
misses, and starts with caches that Python has used.
"""

TENSORS = """\
### By tensor

Predicted / simulated volumes, medians, where they are more than {off:.0%} off in own plans or in
the sample.
"""

KINDS = """\
### Kinds of plans

Those whose measured times are more than {off:.0%} from the predicted ones, relative to the mean of
their operator (geometric mean, and spread as a factor), of which there are {enough} plans at least.
"""

REPEATS = """\
## The same plans once more

Some trials were made twice, with the same sampled plans; the first of the two is there to be
compared with only. *Then* is the first, *now* the second; all are means over the operators. *Time
differs*: the relative change of a plan's time, without what all plans of its operator have in
common. *Fastest then, lost now*: what would be lost now by taking the plan that was the fastest
then. Where the code is the same, that is what noise alone costs; where what generates it has
changed in between, it is what noise and the changes cost together. The losses of predictions are to
be seen beside that. *Model's choice lost*: what today's choice among these plans loses by the times
of then and of now. *Own plan lost*: the loss of the own plan of each day.
"""

COMPARISON = """\
## Comparison with others

All of class A of [performance.md](performance.md): images and weights are plain, and weights may
change from call to call, so that nobody packs them beforehand and all that is packed is timed.
Means of 50 runs, or of as many as there is time for where they take long, with 95% confidence
intervals. In files from before 30 November the first run of a round, which is dropped otherwise,
counts for whoever has too little time for 50 (most of the others on Y23): that makes them up to 2%
slower. Intervals take the rounds for independent in which everybody took turns (ten of five runs
each, or, in files from before 29 November, five of ten), not the runs of a round, which share what
else the host did then. Ratios are of the rounds that both made, their intervals of the ratios in
each of these; those of geometric means are of the measuring, not of the choice of operators. All
rounds of an operator follow each other, within some ten seconds, and a shared host may be another
one an hour later: so intervals are for the moment of measuring. The best other is the fastest by
its mean whose result is right, so that of two that are equally fast it is the one that had more
luck. The last rows are geometric means over the operators. MLIR's default is so much slower, as a
rule, that it is run three times only, in the first three rounds; where it is the best other, the
ratio rests on these. Everybody is called from Python as its users call it, oneDNN through a driver
in C++; what such a call costs cold is part of the time, and tells on layers of 100 us. (oneDNN is
that of the package `onednn-cpu-gomp`; PyTorch brings a newer one of its own.)
*Best of 5* is `candidates=5`: the own plan and four others, timed once while compiling, with cold
caches, and the fastest taken; where it is slower than the own plan, it was misled by noise.

What differs from Sec. 10 of the paper: no tuned TVM is among the peers (`make bench-tvm` installs
it, and `mopt-bench run --peers tvm` tunes it, for many minutes an operator); one and two cores, not
8 and 16, as the hosts have no more; clocks are not fixed; and two kinds of operators are read
otherwise. R8 is the 1x1 layer with stride 2 that ResNet-18 has, where the paper prints a 3x3 one,
and the layers of MobileNet, which it calls depthwise, are run as full convolutions of the sizes
that it prints.
"""

LATENCIES = """\
## What the host gives of its caches

Before and after the rounds of each batch of plans it is looked how long a load takes that depends
on the one before, in random order through {parts}, and through
memory, on the core that plans are timed on: nanoseconds, the median of all looks and 10% to 90% of
them. A core that has its caches to itself finds them alike at all times; an L3 that takes about as
long as memory keeps little of what a plan puts there. Trials that are missing here are from before
this was looked at.
"""
