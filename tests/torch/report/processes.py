"""What needs processes of its own: exit codes, starts that are repeated, torchrun, hosts."""

import datetime
import os
import re
import subprocess
import sys
import tempfile

import one_rank
import ranks
import strategies
import strategy
import torch
import torch.distributed as dist

from . import apart, check, in_ranks

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RANK = os.path.join(HERE, "one_rank.py")


def scripts(given, job, limit_s=60, variables=None):
    """(exit code, output) of each rank of a job of one_rank.py that is started as users do, with more variables."""
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(given.world_size):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(given.world_size),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(given.world_size),
                "MEETING": f"file://{folder}/meeting",
                **(variables or {}),
            }
            started.append(
                subprocess.Popen(
                    [sys.executable, RANK, job, given.backend],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        try:
            return [(process.wait(limit_s), process.stdout.read()) for process in started]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"a rank has not ended within {limit_s} s") from None
        finally:
            for process in started:
                process.kill()
                process.wait()


def codes_are(given, job, expected):
    expected = expected + 1 if given.control else expected
    ended = scripts(given, job)
    for rank, (code, output) in enumerate(ended):
        if code != expected:
            last = (output.strip().splitlines() or ["nothing"])[-1]
            raise AssertionError(f"rank {rank} ended with code {code}, expected {expected}; it said: {last}")


@apart()
def exit_without_destroying_the_group(given):
    codes_are(given, "exit_after_a_call", 7)


@apart()
def exit_with_a_call_in_flight(given):
    codes_are(given, "exit_with_a_call_in_flight", 7)


@apart()
def exit_with_a_continuation_in_flight(given):
    codes_are(given, "exit_with_a_continuation_in_flight", 7)


@apart()
def exit_while_a_thread_waits(given):
    codes_are(given, "exit_while_a_thread_waits", 7)


@apart()
def exit_in_the_middle_of_ddp(given):
    codes_are(given, "exit_in_the_middle_of_ddp", 7)


@apart()
def exit_by_an_exception(given):
    codes_are(given, "exit_by_an_exception", 1)


@apart()
def exit_in_order(given):
    codes_are(given, "exit_in_order", 0)


def certificates(folder):
    """Variables of TLS: a certificate that is its own authority, and its key."""
    key, certificate = f"{folder}/rank.key", f"{folder}/rank.pem"
    asked = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=rank"]
    subprocess.run(
        ["openssl", "req", "-x509", *asked, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    os.chmod(key, 0o600)
    files = {"CERTIFICATE": certificate, "KEY": key, "CA": certificate}
    return {"SINEW_TLS": "1", **{f"SINEW_TLS_{name}": path for name, path in files.items()}}


@apart()
def tls_without_a_secret_file_warns(given):
    """PyTorch's store is not encrypted. With SINEW_SECRET_FILE the secret does not go through it."""
    with tempfile.TemporaryDirectory() as folder:
        tls = certificates(folder)
        secret = f"{folder}/secret"
        with open(secret, "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="utf-8") as file:
            file.write("0123456789abcdef" * 4)
        for variables, expected in ((tls, 1), ({**tls, "SINEW_SECRET_FILE": secret}, 0)):
            ended = scripts(given, "exit_in_order", variables={} if given.control else variables)
            warned = sum("SINEW_TLS=1 without SINEW_SECRET_FILE" in output for _, output in ended)
            codes = [code for code, _ in ended]
            if any(codes) or warned != expected:
                raise AssertionError(f"{warned} ranks warned, expected {expected}; exit codes {codes}; {ended[0][1]}")


def again(place, store):
    for turn in range(3):
        place.start(store=store)
        value = torch.full((4,), float(place.rank + turn))
        dist.all_reduce(value)
        check(place, f"start {turn}", value, torch.full((4,), place.size * (place.size - 1) / 2 + turn * place.size))
        dist.destroy_process_group()


@in_ranks()
def init_again_on_the_same_tcp_store(place):
    again(place, place.meet(datetime.timedelta(seconds=30)))


@in_ranks()
def init_again_on_the_same_file_store(place):
    again(place, dist.FileStore(place.shared("store"), place.size))


@in_ranks()
def init_again_without_destroying_groups_in_order(place):
    """Rank 0 destroys its groups late, when the others begin the next round."""
    import time

    store = place.meet(datetime.timedelta(seconds=30))
    for turn in range(3):
        place.start(store=store)
        value = torch.full((4,), float(place.rank + turn))
        dist.all_reduce(value)
        check(place, f"start {turn}", value, torch.full((4,), place.size * (place.size - 1) / 2 + turn * place.size))
        time.sleep(0.2 if place.rank == 0 else 0)
        dist.destroy_process_group()


def torchrun(given, *how, job, limit_s=120):
    command = ranks.torchrun(given.world_size, *how, RANK, job, given.backend)
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = agent.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        agent.terminate()  # torchrun ends its ranks, which are in sessions of their own; after 30 s by SIGKILL
        agent.communicate(timeout=60)
        raise AssertionError(f"torchrun has not ended within {limit_s} s") from None
    return subprocess.CompletedProcess(command, agent.returncode, output, errors)


def restarted(given, *how):
    done = torchrun(given, *how, "--max-restarts", "0" if given.control else "1", job="restart_once")
    right = done.stdout.count("is right in round 1")
    if done.returncode != 0 or right != given.world_size:
        errors = [line for line in done.stderr.splitlines() if "Error" in line]
        raise AssertionError(f"torchrun ended with {done.returncode}, {right} ranks were right; {errors[-1:]}")


@apart()
def restart_by_torchrun_static(given):
    restarted(given, "--nnodes", "1", "--master-addr", "127.0.0.1", "--master-port", str(ranks.free_port()))


@apart()
def restart_by_torchrun_elastic(given):
    restarted(
        given, "--nnodes", "1:1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", "sinew"
    )


@apart(needs_flag="info")
def started_by_sinew_run(given):
    """The variables that sinew-run gives each rank are those of init_method env://."""
    job = "exit_by_an_exception" if given.control else "exit_in_order"
    launcher = os.path.join(os.path.dirname(given.info), "sinew-run")
    command = [launcher, "-n", str(given.world_size), sys.executable, RANK, job, given.backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    if done.returncode:
        raise AssertionError(f"sinew-run ended with {done.returncode}: {done.stderr[-500:]}")


def on_two_hosts(given, family, ranks_each, job, **variables):
    command = [os.path.join(HERE, "hosts.sh"), family, str(ranks_each), sys.executable, RANK, job, given.backend]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=180, check=False
    )
    if done.returncode == 77:
        raise ranks.Skip(done.stdout.strip())
    if done.returncode or done.stdout.count("is right") != 2 * ranks_each:
        errors = [line for line in done.stderr.splitlines() if "Error" in line]
        raise AssertionError(f"the job ended with {done.returncode}; {errors[-1:]}")


def two_hosts(given, family):
    on_two_hosts(given, family, 1, "exit_after_a_call" if given.control else "between_hosts")


@apart()
def hosts_without_an_interface_variable(given):
    two_hosts(given, "v4")


@apart()
def hosts_that_have_only_ipv6(given):
    two_hosts(given, "v6")


@apart(needs_flag="info", limit_s=120)
def strategies_on_two_hosts(given):
    """DDP and FSDP2 on two hosts of two ranks have the results that Gloo has within one host. The calls for a large
    layer are hierarchical: sinew-info shows the ways that calls took."""
    strategies.import_kinds()
    cases = [case for case in strategy.CASES if case.name in one_rank.STRATEGIES]
    with tempfile.TemporaryDirectory() as folder:
        on_two_hosts(given, "v4", 2, "strategies_between_hosts", RESULTS=folder, SINEW_TRACE=folder)
        found = [torch.load(os.path.join(folder, f"{rank}.results")) for rank in range(4)]
        calls = subprocess.run([given.info, "trace", folder], capture_output=True, text=True, timeout=60, check=False)
    for case in cases:
        endings = ranks.run(strategies.in_rank(case), "gloo", 4)
        trouble = ranks.first_trouble(endings)
        if trouble:
            raise AssertionError(f"{case.name} with gloo: {trouble}")
        expected = [ending.result for ending in endings]
        _, unlike = strategies.compare(expected, [results[case.name] for results in found], case.tolerance(4))
        if unlike:
            raise AssertionError(f"{case.name}: {unlike}")
    way = "another" if given.control else "hierarchical"
    for operation in ("all_reduce", "all_gather", "reduce_scatter"):
        if not re.search(rf"^{operation} +f32 +{4 * one_rank.LARGE_LAYER**2} .* {way} on ", calls.stdout, re.MULTILINE):
            raise AssertionError(f"no {operation} of the large layer was {way}: {calls.stdout}{calls.stderr}")
