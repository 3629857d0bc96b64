/// Collectives that move equal blocks, for every dtype.
#include <stdlib.h>
#include <string.h>

#include "check.h"

/// The number that rank `from` has for rank `to`.
static int number(int from, int to, size_t i) { return (int)(((size_t)(3 * from + 5 * to) + i) % 2); }

static void fill_for_all(const job* j, sinew_dtype d, void* in, size_t count) {
  for (int to = 0; to < j->size; ++to) {
    for (size_t i = 0; i < count; ++i) put(d, in, (size_t)to * count + i, number(j->rank, to, i));
  }
}

static void test_one(const job* j, sinew_dtype d, size_t count, int way) {
  const size_t ranks = (size_t)j->size;
  const size_t each = sinew_dtype_size(d);
  const size_t me = (size_t)j->rank;
  const int root = j->size / 2;
  const int is_root = j->rank == root;
  sinew_work work = {0};
  sinew_work* const w = work_of(way, &work);
  const sinew_call_options* here = SINEW_OPTIONS();
  void* in = elements_of(d, ranks * count);
  void* out = elements_of(d, ranks * count);

  // all_gather and gather: rank r gives what it has for rank 0.
  for (size_t i = 0; i < count; ++i) put(d, in, i, number(j->rank, 0, i));
  OK(ended(way, sinew_all_gather(j->all, in, out, count, d, here, w), &work));
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, out, r * count + i, number((int)r, 0, i)));
  }
  memset(out, 0, ranks * count * each);
  memcpy((char*)out + me * count * each, in, count * each);
  OK(ended(way, sinew_all_gather(j->all, (char*)out + me * count * each, out, count, d, here, w), &work));
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, out, r * count + i, number((int)r, 0, i)));
  }
  memset(out, 0, ranks * count * each);
  OK(ended(way, sinew_gather(j->all, in, is_root ? out : NULL, count, d, root, here, w), &work));
  for (size_t r = 0; r < ranks && is_root; ++r) {
    for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, out, r * count + i, number((int)r, 0, i)));
  }

  // all_to_all and scatter.
  fill_for_all(j, d, in, count);
  memset(out, 0, ranks * count * each);
  OK(ended(way, sinew_all_to_all(j->all, in, out, count, d, here, w), &work));
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, out, r * count + i, number((int)r, j->rank, i)));
  }
  memset(out, 0, ranks * count * each);
  OK(ended(way, sinew_scatter(j->all, is_root ? in : NULL, out, count, d, root, here, w), &work));
  for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, out, i, number(root, j->rank, i)));
  OK(ended(way, sinew_all_to_all(j->all, in, in, count, d, here, w), &work));
  for (size_t r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, in, r * count + i, number((int)r, j->rank, i)));
  }

  for (size_t i = 0; i < count; ++i) put(d, in, i, number(j->rank, 1, i));
  OK(ended(way, sinew_broadcast(j->all, in, count, d, root, here, w), &work));
  for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, in, i, number(root, 1, i)));
  free(in);
  free(out);
}

void test_blocks(const job* j) {
  for (int d = SINEW_I8; d <= SINEW_U16; ++d) {
    const size_t counts[] = {1, 0, 13, 4099};
    for (size_t c = 0; c < 4; ++c) test_one(j, (sinew_dtype)d, counts[c], (d + (int)c) % WAYS);
  }
  sinew_work work = {0};
  for (int way = 0; way < WAYS; ++way) OK(ended(way, sinew_barrier(j->all, NULL, work_of(way, &work)), &work));
}
