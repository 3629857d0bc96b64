"""Calls that take objects of Python."""

import operator
import unittest

from ranks import in_threads


class ObjectsTest(unittest.TestCase):
    def ranks(self, body):
        for size in (1, 2, 3):
            with self.subTest(ranks=size):
                in_threads(size, lambda world: body(world.communicator))

    def test_collectives_carry_objects(self):
        def body(c):
            mine = {"rank": c.rank, "text": "x" * (100 * c.rank)}
            everyone = [{"rank": r, "text": "x" * (100 * r)} for r in range(c.size)]
            self.assertEqual(c.objects.all_gather(mine), everyone)
            for root in range(c.size):
                self.assertEqual(c.objects.broadcast(mine if c.rank == root else None, root), everyone[root])
                self.assertEqual(c.objects.gather(mine, root), everyone if c.rank == root else None)
                self.assertEqual(c.objects.scatter(everyone if c.rank == root else None, root), mine)
                self.assertEqual(c.objects.reduce([c.rank], root=root), list(range(c.size)) if c.rank == root else None)
            self.assertEqual(c.objects.all_to_all([(c.rank, t) for t in range(c.size)]), [(s, c.rank) for s in range(c.size)])
            self.assertEqual(c.objects.all_to_all(t for t in range(c.size)), [c.rank] * c.size)
            self.assertEqual(c.objects.scatter((t for t in range(c.size)) if c.rank == 0 else None), c.rank)
            self.assertEqual(c.objects.all_reduce(c.rank + 1, operator.mul), [1, 2, 6][c.size - 1])

        self.ranks(body)

    def test_reductions_combine_in_the_order_of_the_ranks(self):
        self.ranks(lambda c: self.assertEqual(c.objects.all_reduce(str(c.rank)), "".join(map(str, range(c.size)))))

    def test_messages_carry_objects(self):
        def body(c):
            to, source = (c.rank + 1) % c.size, (c.rank - 1) % c.size
            self.assertEqual(c.objects.sendrecv({c.rank}, to, source), {source})

            def send():
                c.objects.send([None, c.rank], to, tag=4)
                c.objects.send("any", to, tag=5)

            def receive():
                self.assertEqual(c.objects.recv(source, tag=4), [None, source])
                self.assertEqual(c.objects.recv_any(tag=5), ("any", source))

            # A send may wait for its receiver, so that not all ranks may send first.
            for step in (send, receive) if c.rank % 2 == 0 else (receive, send):
                step()

        self.ranks(body)

    def test_object_that_cannot_be_pickled_raises_before_anything_is_sent(self):
        def body(c):
            with self.assertRaises((TypeError, AttributeError)):
                c.objects.all_gather(lambda: 0) if False else c.objects.all_gather(iter(lambda: 0, 1))
            self.assertEqual(c.objects.all_gather(1), [1] * c.size)

        self.ranks(body)


if __name__ == "__main__":
    unittest.main()
