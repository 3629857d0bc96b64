"""Every operation with every dtype, in both manners, against what NumPy computes."""

import unittest

import numpy as np

import sinew
from ranks import COMPLEX, DTYPES, FLOATS, INTEGERS, dtype, in_threads, values

SIZES = (0, 1, 7, 1000)


def equal(found, expected):
    np.testing.assert_array_equal(np.asarray(found).view(np.uint8), np.asarray(expected, found.dtype).view(np.uint8))


def both(communicator, name, *arguments, **options):
    """A call in both manners: waited for, and started. Yields after each."""
    getattr(communicator, name)(*arguments, **options)
    yield
    getattr(communicator, "start_" + name)(*arguments, **options).wait()
    yield


def combined(op, contributions):
    """NumPy combines the contributions, one after the other. The result is rounded once, as sinew rounds."""
    kind = contributions[0].dtype
    wide = [c.astype(np.float64) if kind.name in FLOATS else c for c in contributions]
    if kind == np.bool_:
        return {"sum": np.logical_or, "max": np.logical_or, "prod": np.logical_and, "min": np.logical_and}[op].reduce(wide)
    function = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add,
                "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}[op]
    result = function.reduce(np.stack(wide), axis=0, dtype=wide[0].dtype)
    if op == "avg":
        result = np.trunc(result / len(wide)) if kind.name in INTEGERS else result / len(wide)
    return result.astype(kind)


def operators(name):
    if name in COMPLEX:
        return ("sum",)
    if name == "bool":
        return ("sum", "prod", "min", "max")
    if name in INTEGERS:
        return ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor")
    return ("sum", "prod", "min", "max")


class Conformance(unittest.TestCase):
    def ranks(self, body):
        for size in (1, 2, 3):
            with self.subTest(ranks=size):
                in_threads(size, body)

    def each(self, body):
        """body(communicator, dtype name, count) on 1, 2 and 3 ranks, for every dtype and size."""
        def rank(world):
            for name in DTYPES:
                for count in SIZES:
                    body(world.communicator, name, count)

        self.ranks(rank)

    def test_all_reduce_combines_by_every_operator(self):
        def body(c, name, count):
            contributions = [values(name, count, r) for r in range(c.size)]
            for op in operators(name):
                expected = combined(op, contributions)
                out = np.empty(count, dtype(name))
                for _ in both(c, "all_reduce", contributions[c.rank], out, op=op):
                    equal(out, expected)
                    out[:] = 0
                for start in (False, True):
                    data = contributions[c.rank].copy()
                    c.start_all_reduce(data, op=op).wait() if start else c.all_reduce(data, op=op)
                    equal(data, expected)

        self.each(body)

    def test_premulsum_scales_every_contribution(self):
        def rank(world):
            c = world.communicator
            for name in ("float32", "float64", "complex64", "complex128"):
                data = values(name, 9, c.rank)
                c.all_reduce(data, op="premulsum", factor=0.5)
                equal(data, sum(values(name, 9, r) for r in range(c.size)) * 0.5)

        self.ranks(rank)

    def test_average_of_floats_divides_by_the_ranks(self):
        def rank(world):
            c = world.communicator
            for name in ("float32", "float64"):
                data = values(name, 9, c.rank)
                c.all_reduce(data, op="avg")
                np.testing.assert_allclose(data, sum(values(name, 9, r) for r in range(c.size)) / c.size, rtol=1e-6)

        self.ranks(rank)

    def test_all_gather_and_its_list_form(self):
        def body(c, name, count):
            expected = np.concatenate([values(name, count, r) for r in range(c.size)])
            out = np.zeros(count * c.size, dtype(name))
            for _ in both(c, "all_gather", values(name, count, c.rank), out):
                equal(out, expected)
                out[:] = 0
            out[c.rank * count : (c.rank + 1) * count] = values(name, count, c.rank)
            c.all_gather(out[c.rank * count : (c.rank + 1) * count], out)
            equal(out, expected)
            outs = [np.zeros(count, dtype(name)) for _ in range(c.size)]
            for _ in both(c, "all_gather", values(name, count, c.rank), outs):
                equal(np.concatenate(outs), expected)

        self.each(body)

    def test_reduce_scatter_and_its_list_form(self):
        def body(c, name, count):
            whole = [values(name, count * c.size, r) for r in range(c.size)]
            expected = combined("sum", whole)[c.rank * count : (c.rank + 1) * count]
            out = np.zeros(count, dtype(name))
            for _ in both(c, "reduce_scatter", whole[c.rank], out):
                equal(out, expected)
                out[:] = 0
            parts = [np.array(part) for part in whole[c.rank].reshape(c.size, count)]
            for _ in both(c, "reduce_scatter", parts, out):
                equal(out, expected)

        self.each(body)

    def test_all_to_all_and_its_list_form(self):
        def body(c, name, count):
            block = lambda source, target: values(name, count, 3 * source + target)
            data = np.concatenate([block(c.rank, t) for t in range(c.size)])
            expected = np.concatenate([block(s, c.rank) for s in range(c.size)])
            out = np.zeros(count * c.size, dtype(name))
            for _ in both(c, "all_to_all", data, out):
                equal(out, expected)
                out[:] = 0
            outs = [np.zeros(count, dtype(name)) for _ in range(c.size)]
            for _ in both(c, "all_to_all", [block(c.rank, t) for t in range(c.size)], outs):
                equal(np.concatenate(outs), expected)

        self.each(body)

    def test_broadcast_from_every_root(self):
        def body(c, name, count):
            for root in range(c.size):
                for start in (False, True):
                    data = values(name, count, c.rank)
                    c.start_broadcast(data, root).wait() if start else c.broadcast(data, root)
                    equal(data, values(name, count, root))

        self.each(body)

    def test_reduce_to_every_root(self):
        def body(c, name, count):
            contributions = [values(name, count, r) for r in range(c.size)]
            for root in range(c.size):
                out = np.zeros(count, dtype(name)) if c.rank == root else None
                for _ in both(c, "reduce", contributions[c.rank], out, root):
                    if out is not None:
                        equal(out, combined("sum", contributions))
                data = contributions[c.rank].copy()
                c.reduce(data, root=root)
                equal(data, combined("sum", contributions) if c.rank == root else contributions[c.rank])

        self.each(body)

    def test_gather_and_scatter_with_every_root(self):
        def body(c, name, count):
            expected = np.concatenate([values(name, count, r) for r in range(c.size)])
            for root in range(c.size):
                here = c.rank == root
                out = np.zeros(count * c.size, dtype(name)) if here else None
                for _ in both(c, "gather", values(name, count, c.rank), out, root):
                    if here:
                        equal(out, expected)
                outs = [np.zeros(count, dtype(name)) for _ in range(c.size)] if here else []
                c.gather(values(name, count, c.rank), outs, root)
                if here:
                    equal(np.concatenate(outs), expected)
                mine = np.zeros(count, dtype(name))
                for _ in both(c, "scatter", expected if here else None, mine, root):
                    equal(mine, values(name, count, c.rank))
                    mine[:] = 0
                parts = [values(name, count, r) for r in range(c.size)] if here else []
                c.scatter(parts, mine, root)
                equal(mine, values(name, count, c.rank))

        self.each(body)

    def test_v_forms_of_every_dtype(self):
        def body(c, name, count):
            counts = [(count + r) % 5 for r in range(c.size)]
            parts = [values(name, counts[r], r) for r in range(c.size)]
            whole = np.concatenate(parts)
            out = np.zeros(len(whole), dtype(name))
            for _ in both(c, "all_gather_v", parts[c.rank], out, counts):
                equal(out, whole)
                out[:] = 0
            contributions = [values(name, len(whole), r) for r in range(c.size)]
            first = sum(counts[: c.rank])
            mine = np.zeros(counts[c.rank], dtype(name))
            for _ in both(c, "reduce_scatter_v", contributions[c.rank], mine, counts):
                equal(mine, combined("sum", contributions)[first : first + counts[c.rank]])
            for root in range(c.size):
                here = c.rank == root
                gathered = np.zeros(len(whole), dtype(name)) if here else None
                for _ in both(c, "gather_v", parts[c.rank], gathered, counts if here else None, root):
                    if here:
                        equal(gathered, whole)
                mine = np.zeros(counts[c.rank], dtype(name))
                for _ in both(c, "scatter_v", whole if here else None, mine, counts if here else None, root):
                    equal(mine, parts[c.rank])

        self.each(body)

    def test_all_to_all_v_with_displacements(self):
        def body(c, name, count):
            sends = lambda source, target: (count + source + 2 * target) % 4
            in_counts = [sends(c.rank, t) for t in range(c.size)]
            out_counts = [sends(s, c.rank) for s in range(c.size)]
            firsts = np.cumsum([0, *[n + 1 for n in in_counts]])  # one element lies unused before the next part
            data = np.zeros(firsts[-1], dtype(name))
            for target, n in enumerate(in_counts):
                data[firsts[target] : firsts[target] + n] = values(name, n, c.rank + target)
            expected = np.concatenate([values(name, n, s + c.rank) for s, n in enumerate(out_counts)])
            out = np.zeros(len(expected), dtype(name))
            for _ in both(c, "all_to_all_v", data, out, in_counts, out_counts, in_displacements=firsts[:-1]):
                equal(out, expected)

        self.each(body)

    def test_messages_of_every_dtype(self):
        def body(c, name, count):
            to, source = (c.rank + 1) % c.size, (c.rank - 1) % c.size
            out = np.zeros(count, dtype(name))
            for _ in both(c, "sendrecv", values(name, count, c.rank), to, out, source):
                equal(out, values(name, count, source))
                out[:] = 0
            work = c.start_send(values(name, count, c.rank), to, tag=5)
            c.recv(out, source, tag=5)
            work.wait()
            equal(out, values(name, count, source))
            work = c.start_send(values(name, count, c.rank), to, tag=6)
            self.assertEqual(c.recv_any(out, tag=6), source)
            work.wait()
            messages = [sinew.Message.send(values(name, count, c.rank), to), sinew.Message.recv(out, source)]
            out[:] = 0
            for _ in both(c, "group", messages):
                equal(out, values(name, count, source))

        self.each(body)

    def test_plans_run_again_and_again(self):
        def body(c, name, count):
            plan = c.plan("all_reduce", count, name)
            self.assertIn(plan.chosen.algorithm, plan.explain())
            self.assertEqual(plan.ranks, c.size)
            contributions = [values(name, count, r) for r in range(c.size)]
            for start in (False, True, False):
                data = contributions[c.rank].copy()
                plan.start(data).wait() if start else plan.run(data)
                equal(data, combined("sum", contributions))

        self.each(body)

    def test_plans_take_a_dtype_by_its_name_and_as_an_object(self):
        class OfTorch:  # as PyTorch prints its dtypes, which have no name
            def __str__(self):
                return "torch.bfloat16"

        with sinew.World() as world:
            c = world.communicator
            for name in DTYPES:
                for given in (name, dtype(name), dtype(name).type):
                    data = values(name, 5, 0)
                    c.plan("all_reduce", 5, given).run(data)
                    equal(data, values(name, 5, 0))
            c.plan("all_reduce", 5, OfTorch()).run(values("bfloat16", 5, 0))

    def test_objects_show_rank_size_and_state(self):
        def rank(world):
            c = world.communicator
            where = f"rank {c.rank} of {c.size}"
            self.assertEqual((repr(world), repr(c)), (f"<sinew.World: {where}>", f"<sinew.Communicator: {where}>"))
            plan = c.plan("all_reduce", 5, np.float64)
            self.assertEqual(
                repr(plan),
                f"<sinew.Plan: {plan.explain().splitlines()[0]}, by {plan.chosen.algorithm} over {plan.chosen.transport}>",
            )
            half = c.split(-1 if c.rank == 0 else 0)
            self.assertEqual(repr(half), "<sinew.Communicator: empty>" if c.rank == 0 else f"<sinew.Communicator: rank {c.rank - 1} of {c.size - 1}>")
            half.close()
            if c.rank > 0:
                self.assertEqual(repr(half), f"<sinew.Communicator: rank {c.rank - 1} of {c.size - 1}, closed>")
            world.close()
            self.assertEqual((repr(world), repr(c)), (f"<sinew.World: {where}, closed>", f"<sinew.Communicator: {where}, closed>"))

        in_threads(3, rank)

    def test_functions_of_python_reduce_every_dtype(self):
        def rank(world):
            c = world.communicator
            for name in (*INTEGERS, *FLOATS, "bool"):
                data = values(name, 100, c.rank)
                c.all_reduce(data, op=np.maximum)
                equal(data, combined("max", [values(name, 100, r) for r in range(c.size)]))
            plan = c.plan("all_reduce", 5, "float64", op=lambda a, b: a + b)
            data = values("float64", 5, c.rank)
            plan.run(data)
            equal(data, combined("sum", [values("float64", 5, r) for r in range(c.size)]))

        self.ranks(rank)

    def test_determinism_codec_and_label_are_taken(self):
        def rank(world):
            c = world.communicator
            for level in ("fast", "reproducible", "layout_invariant"):
                data = np.ones(64, np.float32)
                if level != "layout_invariant" or c.size in (1, 2):
                    c.all_reduce(data, determinism=level, label="step 3", timeout=10)
                    equal(data, np.full(64, c.size))
            for codec in ("none", "bf16", "f16", "int8", "f8e4m3"):
                data = np.ones(512, np.float32)
                c.all_reduce(data, codec=codec)
                np.testing.assert_allclose(data, c.size, rtol=0.01)

        self.ranks(rank)

    def test_subgroups_and_splits(self):
        def rank(world):
            c = world.communicator
            half = c.split(c.rank % 2, -c.rank, name="half")
            self.assertEqual(half.world_rank(half.rank), c.rank)
            data = np.array([c.rank])
            half.all_reduce(data)
            self.assertEqual(data[0], sum(r for r in range(c.size) if r % 2 == c.rank % 2))
            self.assertEqual(c.split(-1).size, 0)
            if c.rank < 2:
                with world.subgroup(range(min(2, c.size)), "first") as group:
                    self.assertEqual(group.name, f"first of {min(2, c.size)}")
                    group.barrier()
            c.barrier()

        self.ranks(rank)

    def test_world_tells_its_facts(self):
        def rank(world):
            self.assertEqual(world.communicator.size, world.size)
            self.assertIn("inproc", [t.name for t in world.transports() if t.ok])
            self.assertEqual(len(world.cluster().ranks), world.size)
            self.assertIsInstance(world.cluster().hosts[0], dict)
            self.assertEqual(world.cluster().groups_by_host(), [list(range(world.size))])
            self.assertTrue(world.facts())
            self.assertIsNone(world.status())
            self.assertEqual(world.communicator.verdict(), "")
            self.assertGreater(world.descriptor(), -1)
            self.assertGreaterEqual(world.poll(), 0)
            world.communicator.barrier()

        self.ranks(rank)

    def test_memory_is_shown_as_an_array(self):
        def rank(world):
            memory = world.allocate(4096)
            self.assertEqual((len(memory), memory.nbytes), (4096, 4096))
            self.assertTrue(memory.known_as)
            array = np.frombuffer(memory, np.float32)
            self.assertEqual(array.sum(), 0)
            array[:] = 1
            world.communicator.all_reduce(array)
            self.assertEqual(array.sum(), 1024 * world.size)
            self.assertEqual(np.from_dlpack(memory).nbytes, 4096)
            del memory
            self.assertEqual(array[5], world.size)

        self.ranks(rank)

    def test_stats_count_calls(self):
        def rank(world):
            world.communicator.all_reduce(np.ones(4))
            stats = world.communicator.stats()
            self.assertEqual([(s.collective, s.dtype, s.bytes, s.calls) for s in stats.calls], [("all_reduce", "float64", 32, 1)])
            self.assertIn("all_reduce", stats.to_text())

        config = sinew.Config()
        config.time_calls = True
        in_threads(2, rank, config=config)

    def test_other_objects_with_memory_are_taken(self):
        from array import array

        def rank(world):
            c = world.communicator
            for data in (array("d", [1.0, 2.0]), bytearray(b"\x01\x02"), memoryview(bytearray(b"\x01\x02")), np.ones((2, 3))):
                c.all_reduce(data)
            self.assertEqual(data[1][2], c.size)
            scalar = np.array(2.0)
            c.all_reduce(scalar)
            self.assertEqual(scalar, 2.0 * c.size)

        self.ranks(rank)


if __name__ == "__main__":
    unittest.main()
