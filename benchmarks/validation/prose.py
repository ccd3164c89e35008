"""What validation.md and its pages say around their tables, but for `method.md`."""

INTRODUCTION = """\
# Validation of the model

How much performance is lost by taking what the model likes best, how well its order of plans is
that of measuring, and how well it knows what moves between the caches: the questions of Sec. 9 of
the MOpt paper (Li, Xu, Sukumaran-Rajam, Rountev and Sadayappan, "Analytical Characterization and
Design Space Exploration for Optimization of CNNs", ASPLOS 2021), and of its Sec. 10, how fast the
code is beside other libraries. Written by `mopt-validate report`: every table and plot is made of
the data in [{data}]({data}), every plan and every run in lines of JSON. Details are on pages of
their own:

{pages}

To repeat it for Table 1, the other sets and channels last on one machine that does nothing else,
for hours, with the libraries to compare with, or a small part of it in 4 to 9 minutes:

```console
$ make validate
$ make validate-smoke
```

Each trial is what `mopt-validate measure` writes on a host, with `--isa avx2` for AVX2 code,
`--operators testset`, `heldout` and `networks` for other operators than Table 1, `--layout
nhwc_hwcf` for images and filters with channels last. "Machines and versions" has what goes with
`--samples` and `--final-rounds`. `mopt-validate simulate` adds the volumes of its plans, on any
host. A name that ends in `-before` has the same trial, measured earlier. Comparisons are from `make
bench-peers` and `mopt-bench suite --configurations a-cold`, those of `networks` with `--operators
benchmarks/validation/networks.json`.
"""

FIGURES = """\
## Figures to reach

The paper says of its own model that its choice among the sample loses at most 4.5% on any operator,
and at most 3% on all but two of 32, of plans that differ in tile sizes only; ours differ in
microkernels, loop orders and packing as well. All other limits are ours, from before the first
trial; what came later is how many of fewer operators may lose more (one of 16), and that volumes of
fewer than {least_volumes} plans are told, and not judged. Beside a worst loss stands its standard
error: if it is within two of these of the limit, another trial may decide otherwise. Beside a mean
stands its 95% confidence interval, if operators are drawn from more of their kind. The fastest of
all plans is nearly always one of the five candidates, so that what the best of five gains says
nothing that top-1 losses of own plans do not say. The best of a hundred plans, of which some trials
are, is faster than the best of fifty. Of a trial that was measured again the last one is shown,
which favours the model where that was done because a limit had been missed; "Repeatability" has
what it and the one before it lost.
"""

GROUPS = {
    "Own plans": "Against all plans that were timed. *Judged apart* is by other rounds than those "
    "that say which plan is the fastest: on average the former is too large and the latter too "
    "small (see *Loss*).",
    "Choices among the sample": "Against the best sampled plan.",
    "Order of the sample": "Rank correlation of predicted and measured times.",
    "Volumes of the sample": "Median errors against simulated volumes: from each memory, of the "
    "plans of which it is the slowest memory by prediction. By [simulated volumes]"
    "({data}/volumes.md) it may be another one.",
}
"""What is said in front of the table of each group of figures."""

PROTOCOLS = {
    2: "from before caches were flushed in two steps and final rounds were spread: ballast alone "
    "was read, and the final rounds of an operator followed each other.",
    3: "from before ten plans of the sample met in final rounds for their times: the own plan, the "
    "other candidates and the reference were counted among the ten fastest, so that fewer of "
    "the sample did. The best sampled plan is the fastest of these.",
    4: "from before flushing ended with at most 4 MiB for each core, read eight times: that was an "
    "eighth of the last cache, or less where more than four cores share it, however large it is; "
    "the latency of memory was that of a chain through four times the last cache.",
    5: "from before what flushes the caches was read twice, and from before plans took turns in a "
    "random order. On Granite Rapids output of the plan before stayed in the last cache, where it "
    "makes stores past the caches slower and others faster, and the plan before was nearly always "
    "the same one: times of plans that write much output are off there, by a factor of up to 1.9.",
}
"""What is told of trials, by the number of the first protocol that does not have it."""

LOSSES = """\
# Losses and orders

Of each trial in [validation.md](../validation.md), which explains the method: performance that is
lost by the model's choices, operator by operator, and the order of the sample. "Of peak" is of the
rate of multiply-adds on that host. The plots have, as the paper's Fig. 5 and 6, the losses of each
operator, and measured performance and volumes of three operators in predicted order; those between
them have measured and predicted times.
"""

ORDERS = """\
## What the parts of the model are worth

The same plans in the order of simpler models: by the time to compute alone, which includes what
visits and partial register tiles cost, and by what the solver minimises, which counts tiles of each
level and nothing that caches keep beyond them. Good plans are chosen by measured times, which makes
correlations among them smaller. The last columns are the loss, against all plans, of what each
would choose among the few candidates near the solver's best.
"""

TIMES = """\
Measured time divided by predicted time: the median, and 10% to 90% of the plans.
"""

ACCURACY = """\
## How accurate predictions have to be

*If off by 2%* takes measured times, each with a random error of that standard deviation (of
logarithms), as predictions: the mean of the top-1 losses among the sample, and how often all four
figures of such losses are reached, in {draws} draws. These errors are independent, and measured
times are taken for the truth, though they have errors as well. Beside it the error of the model on
plans that take up to {good} times as long as the best, less what all of an operator have in common
(the mean over the operators), and how large it would be, for the errors of measuring, if the model
were right.
"""

MISSES = """\
# Plans that the model misjudges

Every choice of the trials in [validation.md](../validation.md) that loses more than {usual:.0%},
beside the plan that beats it, and why. *Error*: by how much a plan takes longer than predicted,
beyond what other good sampled plans of the operator do on average; *usual error*: the standard
deviation of theirs.

- *May be noise*: it loses at most {noticeable:g} standard errors of what is lost, or these are not
  known, as there were too few rounds.
- *The objective's*: predicted times prefer the plan that beats it; what the solver minimises, by
  which own plans are chosen, does not. (Choices among samples are by predicted times.)
- *Not today's choice*: both prefer the plan that beats it. An older model chose, or the two are
  closer than the solver has to prove, or the better one is none that the solver may choose.
- *Too few good plans*: fewer than {enough} others, which cannot say what is usual.
- *An unusual error*: the choice takes longer than predicted, or the other plan less, by more than
  the interval that has 95% of plans with usual errors. That is for plans that nobody picked; these
  two were picked, as the ones predicted and measured best, so that it happens more often.
- *Usual errors*: no more than that. Of plans with such errors the one that is predicted best is
  seldom the fastest ([how accurate predictions have to
  be]({article}#how-accurate-predictions-have-to-be)).

Top-5 losses have the same causes: five others are predicted to be faster than the fastest plan.
"""

VOLUMES = """\
## Data volumes

Errors of predicted against simulated volumes, by the memory that data comes from (L1: to and from
registers): the median error of each trial's plans; shown are the median trial, and the least and
the largest of them. *Where slowest* has sampled plans whose slowest memory it is by prediction; a
plan of which too little is predicted may be missing there, so that beside it are those whose
slowest memory it is by simulated volumes, of trials with {least} such plans or more, without any
that were simulated for what is predicted of them. [Each trial]({data}/volumes.md) has more of it,
and what is wrong by tensor.
"""

VOLUMES_PAGE = """\
# Data volumes

Of the trials in [validation.md](../validation.md): bytes that leave the cache named (L1: to and
from registers), errors of predicted against simulated volumes. *Where slowest* has the sampled
plans whose slowest memory it is by prediction, and beside it, of those that were not picked for
that, the ones whose slowest memory it is by simulated volumes. Conflicts: volume / that of fully
associative caches. Plans with too many accesses were given up, so that large ones are missing.
"""

CHECKS = """\
Where it is said what valgrind counts, lines that were fetched in the simulation stand beside the
misses of machine code, of own plans with up to {most:,} accesses. It sees register spills and other
addresses, counts an access to two lines once, takes stores past the caches, as those of Y0 are, for
misses, and starts with caches that Python has used.
"""

TENSORS = """\
## By tensor

Predicted / simulated volumes, medians, where they are more than {off:.0%} off in own plans or in
the sample.
"""

KINDS = """\
## Kinds of plans

Those whose measured times are more than {off:.0%} from the predicted ones, relative to the mean of
their operator (geometric mean, and spread as a factor), of which there are {enough} plans at least.
"""

AFTEREFFECTS = """\
## What plans leave behind

Caches are flushed before each run, and yet a run may find what the one before it left there. A
plan always runs after the reference, so that this is the same for all. The reference runs after
other plans, and what it takes more or less for that counts for the plan behind it, as ratios are
what is compared. Of what the reference takes beside a plan, less its median beside all of the
operator, this is the standard deviation over the plans of final rounds, as far as it repeats from
pass to pass.
"""

REPEATS = """\
## Repeatability

Some trials were made twice, with the same sampled plans; the first of the two is there to be
compared with only. *Then* is the first, *now* the second; losses are means over the operators,
correlations medians. *Time differs*: the relative change of a plan's time, without what all plans
of its operator have in common, quantiles over all plans. *Spearman*: the rank correlation of both
times, which no prediction can be expected to exceed by much. *Fastest then, lost now*: what would
be lost now by taking the plan that was the fastest then. Where the code is the same, that is what
noise alone costs; where what generates it has changed in between, it is what noise and the changes
cost together. The losses of predictions are to be seen beside that. *Model's choice lost*: what
today's choice among these plans loses by the times of then and of now. *Own plan lost*: the loss of
the own plan of each day.
"""

LATENCIES = """\
## Cache latencies of the hosts

Before and after the rounds of each batch of plans it is looked how long a load takes that depends
on the one before, in random order through {parts}, and through memory, on the core that plans are
timed on: nanoseconds, the median of all looks and 10% to 90% of them. A core that has its caches to
itself finds them alike at all times; an L3 that takes about as long as memory keeps little of what
a plan puts there. Trials that are missing here are from before this was looked at.
"""

COMPARISON = """\
## Comparison with others

How many times as fast as each of the others the code of one plan is, in the geometric mean over the
operators, and as the fastest of them on each, with the 95% confidence interval of the measuring
(not of the choice of operators); then on how many operators it is slower than that, and on how many
it is not, but the interval says that it may be. [Each operator]({data}/comparison.md) has its speed
there, with what was measured how.
"""

SECTION_10 = """\
What differs from Sec. 10 of the paper: where TVM takes part, MetaSchedule has tuned it for each
operator with 64 trials and warm caches, as it does by default, which takes minutes (`make
bench-tvm` installs it, and `mopt-bench run --peers tvm --json FILE` tunes it), and not AutoTVM with
1000; one and two cores, not 8 and 16, as the hosts have no more; clocks are not fixed; and two
kinds of operators are read otherwise. R8 is the 1x1 layer with stride 2 that ResNet-18 has, where
the paper prints a 3x3 one, and the layers of MobileNet, which it calls depthwise, are run as full
convolutions of the sizes that it prints.
"""

COMPARISON_PAGE = """\
# Comparison with others

Of [validation.md](../validation.md), operator by operator. All is of class A of
[performance.md](../performance.md): images and weights are plain, and weights may change from call
to call, so that nobody packs them beforehand and all that is packed is timed.

Means of 50 runs, or of as many as there is time for where they take long, with 95% confidence
intervals. In files from before 30 November the first run of a round, which is dropped otherwise,
counts for whoever has too little time for 50 (most of the others on Y23): that makes them up to 2%
slower. Intervals take the rounds for independent in which everybody took turns (ten of five runs
each, or, in files from before 29 November, five of ten), not the runs of a round, which share what
else the host did then. Ratios are of the rounds that both made, their intervals of the ratios in
each of these; those of geometric means are of the measuring, not of the choice of operators. All
rounds of an operator follow each other, within some ten seconds, and a shared host may be another
one an hour later: so intervals are for the moment of measuring.

The best other is the fastest by its mean whose result is right, so that of two that are equally
fast it is the one that had more luck. The rows below are geometric means over the operators. MLIR's
default is so much slower, as a rule, that it is run three times only, in the first three rounds;
where it is the best other, the ratio rests on these. Everybody is called from Python as its users
call it, oneDNN through a driver in C++; what such a call costs cold is part of the time, and tells
on layers of 100 us. (oneDNN is that of the package `onednn-cpu-gomp`; PyTorch brings a newer one of
its own.) *Best of 5* is `candidates=5`: the own plan and four others, timed once while compiling,
with cold caches, and the fastest taken; where it is slower than the own plan, it was misled by
noise. The last row is the median time that somebody takes to prepare an operator, in a process that
has started: ours solves, generates code and compiles it, IREE and MLIR's default compile, oneDNN,
ONNX Runtime and OpenVINO choose kernels, *best of 5* and TVM measure (unless an earlier run on the
host has). PyTorch chooses in its first call, which does not count.
"""

CONSTANTS = """\
# Constants that were learnt

What of the model in [validation.md](../validation.md), and of the code that is generated, was
learnt from plans, and from which. Everything else in the model is from manuals, or is measured by
loops that do nothing but read, write or multiply, but for what is said to be an estimate, here or
in a machine's file. Other limits in the generated code, of what is unrolled and of the bytes from
which on something is asked for ahead, are estimates as well.
"""
