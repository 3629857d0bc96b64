#!/usr/bin/env python3
"""Runs PyTorch's own suite for distributed backends, as it ships in the wheel, on CPU.

    suite.py --backend gloo --world-size 2
    suite.py --backend sinew --world-size 3 --only 'all_gather|scatter' --json out.json
    suite.py --backend gloo --list

The suite is torch/testing/_internal/distributed/distributed_test.py, class DistributedTest._DistTestBase. It reads
BACKEND once, when imported, to choose what to skip (`BACKEND != "gloo"`, `BACKEND in DistTestCases.skip_collective`),
and again in its bodies, to make groups. So a backend of another name is tested as gloo is (--like gloo) by importing
the suite with BACKEND=gloo, and setting its global BACKEND to the name under test before anything runs: every test
that gloo is given, is given, and every group is made of the backend under test. --like mpi adds the tests that
upstream gives on CPU to mpi alone (all_to_all). The name is added where bodies ask at run time: the feature sets that
hold the like's name (DistTestCases.backend_feature, skip_collective) and the lists of what is profiled
(PROFILING_SUPPORTED_BACKENDS, SEND_RECV_PROFILING_SUPPORTED_BACKENDS, CUDA_PROFILING_SUPPORTED_BACKENDS). One helper
asks for the name itself in its body (_test_accumulate_gradients_no_sync: `BACKEND == "gloo"` means a module on CPU)
and sees the like's while it runs. No test is changed.

No backend but those in PyTorch can pass test_ddp_logging_data_cpu: it compares the name with the text of an enum,
which is "custom" for all others. torch 2.11 also refuses monitored_barrier by the backend's name, so that with it the
two tests named test_monitored_barrier_gloo cannot pass either.

Beyond upstream's driver: ranks are forked, not spawned (--spawn: as upstream, each test pays for importing torch);
every rank's exit code counts, not that of rank 0 alone; a time limit of each test; a rank that outlives it is killed.
What the suite skips on some condition of the machine (no GPU, small world) is skipped here, with its reason.

Exit: 0 if nothing failed or hung, else 1.
"""

import argparse
import collections
import importlib
import importlib.util
import json
import logging
import os
import re
import sys
import tempfile
import time
import unittest

GROUPS = [  # the first that matches a test's name
    ("profiling", r"profil|nccl_meta|execution_trace"),
    ("join (uneven inputs)", r"uneven_input|join|_uneven_"),
    ("DDP", r"ddp|DDP|no_sync|DistributedDataParallel|Bottleneck|sync_bn|SyncBatchNorm|_bn_|powerSGD|model_averag|"
            r"periodic|post_localSGD|verify_model_across|static_graph|hierarchical|stateless_api|sparse_gradient|"
            r"zero_output_features|average_parameters|buffer"),
    ("monitored barrier", r"monitored_barrier"),
    ("barrier", r"barrier"),
    ("object collectives", r"object"),
    ("batched isend/irecv", r"batch_isend"),
    ("receive from any source", r"any_source"),
    ("send/recv", r"send_recv"),
    ("isend/irecv", r"isend|irecv"),
    ("all_to_all", r"all_to_all"),
    ("all_gather coalesced", r"all_gather_.*coalesced"),
    ("all_gather", r"all_gather|allgather"),
    ("all_reduce coalesced", r"all_reduce_coalesced"),
    ("all_reduce sparse", r"sparse_all_reduce"),
    ("all_reduce", r"all_reduce"),
    ("reduce_scatter", r"reduce_scatter"),
    ("reduce", r"test_reduce"),
    ("broadcast", r"broadcast"),
    ("scatter", r"scatter"),
    ("gather", r"gather"),
    ("groups", r"group|get_rank|get_backend|[Bb]ackend|get_future|destroy"),
]


def group_of(test):
    return next((name for name, pattern in GROUPS if re.search(pattern, test)), "other")


def found(pattern, test):
    return re.search(pattern, test) or re.search(pattern, group_of(test))


def load_suite(backend, like, module_name):
    """The suite as `like` would be given it, run by `backend`."""
    source = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test").origin
    from torch.testing._internal.common_distributed import DistTestCases

    for features in (DistTestCases.backend_feature, DistTestCases.skip_collective):
        for names in features.values():
            if like in names:
                names.add(backend)
    os.environ["BACKEND"] = like
    spec = importlib.util.spec_from_file_location(module_name, source)
    suite = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = suite
    spec.loader.exec_module(suite)
    suite.BACKEND = os.environ["BACKEND"] = backend
    for name in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS",
                 "CUDA_PROFILING_SUPPORTED_BACKENDS"):
        if like in getattr(suite, name) and backend not in getattr(suite, name):
            getattr(suite, name).append(backend)
    return suite


def case_of(suite, like, how):
    class Case(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            if how["spawn"]:
                self._spawn_processes()
            else:
                import torch

                self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self):
            processes = list(self.processes)
            super().tearDown()
            for process in processes:
                process.join(2)
                if process.exitcode is None:
                    process.kill()
                    process.join()

        def _check_return_codes(self, fn, elapsed_time):
            codes = [process.exitcode for process in self.processes]
            super()._check_return_codes(fn, elapsed_time)
            if fn not in self.skip_return_code_checks and len(set(codes)) != 1:
                raise RuntimeError(f"ranks ended with different exit codes: {codes}")

        def _test_accumulate_gradients_no_sync(self, *args, **kwargs):
            suite.BACKEND = like  # asks `BACKEND == "gloo"` to choose the module for CPU; its group is there already
            try:
                super()._test_accumulate_gradients_no_sync(*args, **kwargs)
            finally:
                suite.BACKEND = how["backend"]

        @classmethod
        def _run(cls, rank, test_name, file_name, pipe, **kwargs):
            log = os.open(os.environ["TORCH_SUITE_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            common_logger().setLevel("INFO")
            super()._run(rank, test_name, file_name, pipe, **kwargs)

    class_name = Case.__name__ = Case.__qualname__ = f"Suite_{like}"
    Case.__module__ = __name__
    globals()[class_name] = Case
    return Case


def common_logger():
    return logging.getLogger("torch.testing._internal.common_distributed")


def prepare():
    """What the launching process and each spawned rank do: import, patch, make the classes of tests."""
    how = json.loads(os.environ["TORCH_SUITE"])
    for module in how["imports"]:
        importlib.import_module(module)
    import torch.testing._internal.common_distributed as common

    common_logger().setLevel("WARNING")
    common.TIMEOUT_DEFAULT = how["limit"]
    common.TIMEOUT_OVERRIDE.clear()
    cases = []
    for like in how["like"]:
        suite = load_suite(how["backend"], like, f"distributed_test_as_{like}")
        cases.append((like, case_of(suite, like, how)))
    return cases


def tests_of(cases):
    """(like, class, name, why it is skipped or None); of a later class only what all earlier ones skip unseen."""
    chosen = {}
    for like, case in cases:
        for name in unittest.TestLoader().getTestCaseNames(case):
            method = getattr(case, name)
            why = method.__unittest_skip_why__ if getattr(method, "__unittest_skip__", False) else None
            if name not in chosen or (chosen[name][3] is not None and why is None):
                chosen[name] = (like, case, name, why)
    return list(chosen.values())


def run_one(case, name, limit, log):
    open(log, "w").close()
    os.environ["TORCH_SUITE_LOG"] = log
    result = unittest.TestResult()
    started = time.monotonic()
    case(name).run(result)
    seconds = time.monotonic() - started
    text = open(log, errors="replace").read()
    if result.skipped:
        why = result.skipped[0][1]
        said = re.search(r"for following reason: (.*)", text)
        return "skipped", said.group(1) if said else why, seconds
    trouble = result.failures + result.errors
    if not trouble:
        return "passed", "", seconds
    if seconds >= limit:
        return "hung", trouble[0][1] + "\n" + text, seconds
    return "failed", text + "\n" + trouble[0][1], seconds


def last_words(text):
    """The line of a traceback that says what went wrong."""
    lines = [re.sub(r"^.*common_distributed\.py:\d+\] ", "", line).strip() for line in text.splitlines()]
    places = [i for i, line in enumerate(lines)
              if re.match(r"[\w.]*(Error|Exception|Failure)\b.*:", line) and "exited with error code" not in line]
    if not places:
        return next((line for line in lines if line), "?")[:200]
    words = lines[places[0]]
    if words.endswith("not equal!"):
        words += " " + " ".join(lines[places[0] + 1:places[0] + 4])
    return words[:200]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="gloo")
    arguments.add_argument("--import", dest="imports", action="append", default=[], metavar="MODULE",
                           help="imported first: what registers the backend (dist.Backend.register_backend)")
    arguments.add_argument("--like", action="append", choices=["gloo", "mpi"],
                           help="whose tests are run; may be repeated (default: gloo's, then what only mpi is given)")
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--only", default="", metavar="REGEX", help="tests whose name or group it finds")
    arguments.add_argument("--without", default="", metavar="REGEX")
    arguments.add_argument("--limit", type=float, default=60, metavar="S", help="seconds for one test")
    arguments.add_argument("--spawn", action="store_true", help="spawn ranks as upstream does: slow")
    arguments.add_argument("--json", metavar="FILE")
    arguments.add_argument("--logs", metavar="FOLDER", help="keep what the ranks of each test said")
    arguments.add_argument("--list", action="store_true")
    given = arguments.parse_args()

    folder = given.logs or tempfile.mkdtemp(prefix="torch_suite_")
    os.makedirs(folder, exist_ok=True)
    meeting = os.path.join(os.path.abspath(folder), "init")  # of the one test that starts its group anew
    if os.path.exists(meeting):
        os.unlink(meeting)
    os.environ.update(CUDA_VISIBLE_DEVICES="", WORLD_SIZE=str(given.world_size), INIT_METHOD="file://" + meeting)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["TORCH_SUITE"] = json.dumps(
        {"backend": given.backend, "imports": given.imports, "like": given.like or ["gloo", "mpi"],
         "limit": given.limit, "spawn": given.spawn})
    sys.path.insert(0, os.getcwd())
    cases = prepare()
    import torch

    tests = [test for test in tests_of(cases)
             if found(given.only, test[2]) and not (given.without and found(given.without, test[2]))]
    if given.list:
        for like, _, name, why in tests:
            print(f"{group_of(name):24} {name}  as {like}" + (f"  skipped: {why}" if why else ""))
        return 0

    rows = []
    started = time.monotonic()
    for like, case, name, why in tests:
        if why is not None:
            outcome, said, seconds = "skipped", why, 0.0
        else:
            outcome, said, seconds = run_one(case, name, given.limit, os.path.join(folder, name + ".log"))
        rows.append({"test": name, "group": group_of(name), "as": like, "outcome": outcome, "said": said,
                     "seconds": round(seconds, 2)})
        words = said if outcome == "skipped" else last_words(said) if said else ""
        print(f"{outcome:8}{seconds:6.1f} s  {name}" + (f"  ({words})" if words else ""), flush=True)

    total = time.monotonic() - started
    by_group = collections.defaultdict(collections.Counter)
    for row in rows:
        by_group[row["group"]][row["outcome"]] += 1
    print(f"\n{'':24} passed  failed  hung  skipped")
    for group in [name for name, _ in GROUPS] + ["other"]:
        if group in by_group:
            count = by_group[group]
            print(f"{group:24} {count['passed']:6}  {count['failed']:6}  {count['hung']:4}  {count['skipped']:7}")
    reasons = collections.Counter(re.sub(r"\{.*\}", "{..}", row["said"]) for row in rows if row["outcome"] == "skipped")
    print("\nreasons of skips:")
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")
    count = collections.Counter(row["outcome"] for row in rows)
    print(f"\ntorch {torch.__version__}, backend {given.backend}, {given.world_size} ranks, "
          f"{total:.0f} s; {len(rows)} tests, {count['hung']} hung")
    print(f"{count['passed']} passed, {count['failed'] + count['hung']} failed, {count['skipped']} skipped")
    if given.json:
        with open(given.json, "w") as out:
            json.dump({"torch": torch.__version__, "backend": given.backend, "world_size": given.world_size,
                       "seconds": round(total, 1), "totals": dict(count), "tests": rows}, out, indent=1)
    return 1 if count["failed"] + count["hung"] else 0


if __name__ == "__main__":
    sys.exit(main())
elif __name__ == "__mp_main__" and "TORCH_SUITE" in os.environ:
    prepare()
