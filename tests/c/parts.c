/// The v-forms, and the forms that take a buffer for each rank.
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { MOST_RANKS = 8, GAP = 3 };

/// The number of elements that rank `from` has for rank `to`. Some have none.
static uint64_t length(int from, int to) { return (uint64_t)((5 * from + 3 * to) % 7) * 11; }
static int32_t number(int from, int to, size_t i) { return (int32_t)(1000000 * from + 10000 * to) + (int32_t)i; }

/// Counts and displacements of one side. `spread`: gaps lie between the parts, and the last part comes first.
typedef struct parts {
  uint64_t counts[MOST_RANKS];
  uint64_t at[MOST_RANKS];
  size_t total;
} parts;

static void lay_out(parts* p, int ranks, int spread) {
  uint64_t next = 0;
  for (int k = 0; k < ranks; ++k) {
    const int r = spread ? ranks - 1 - k : k;
    p->at[r] = next;
    next += p->counts[r] + (spread ? GAP : 0);
  }
  p->total = (size_t)next;
}

static void test_v(const job* j, int spread, int way) {
  const int ranks = j->size;
  const int root = ranks - 1;
  const int is_root = j->rank == root;
  sinew_work work = {0};
  sinew_work* const w = work_of(way, &work);
  const sinew_call_options* here = SINEW_OPTIONS(.label = "parts");
  parts shared;  // rank r has length(r, 0)
  parts sent;    // to each rank
  parts taken;   // from each rank
  for (int r = 0; r < ranks; ++r) {
    shared.counts[r] = length(r, 0);
    sent.counts[r] = length(j->rank, r);
    taken.counts[r] = length(r, j->rank);
  }
  lay_out(&shared, ranks, spread);
  lay_out(&sent, ranks, spread);
  lay_out(&taken, ranks, spread);
  const uint64_t* shared_at = spread ? shared.at : NULL;
  const uint64_t* sent_at = spread ? sent.at : NULL;
  const uint64_t* taken_at = spread ? taken.at : NULL;
  const size_t own = (size_t)shared.counts[j->rank];

  int32_t* in = elements_of(SINEW_I32, own);
  int32_t* out = elements_of(SINEW_I32, shared.total);
  for (size_t i = 0; i < own; ++i) in[i] = number(j->rank, 0, i);
  OK(ended(way, sinew_all_gather_v(j->all, in, out, shared.counts, shared_at, SINEW_I32, here, w), &work));
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < shared.counts[r]; ++i) REQUIRE(out[shared.at[r] + i] == number(r, 0, i));
  }
  memset(out, 0, shared.total * sizeof *out);
  OK(ended(way,
           sinew_gather_v(j->all, in, own, is_root ? out : NULL, is_root ? shared.counts : NULL, shared_at, SINEW_I32,
                          root, here, w),
           &work));
  for (int r = 0; r < ranks && is_root; ++r) {
    for (size_t i = 0; i < shared.counts[r]; ++i) REQUIRE(out[shared.at[r] + i] == number(r, 0, i));
  }

  // reduce_scatter_v: every rank contributes its rank plus the place.
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < shared.counts[r]; ++i) out[shared.at[r] + i] = number(j->rank, r, i);
  }
  OK(ended(way, sinew_reduce_scatter_v(j->all, out, in, shared.counts, shared_at, SINEW_I32, SINEW_SUM, here, w),
           &work));
  for (size_t i = 0; i < own; ++i) {
    int32_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += number(r, j->rank, i);
    REQUIRE(in[i] == sum);
  }

  // scatter_v sends back what gather_v would take.
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < shared.counts[r]; ++i) out[shared.at[r] + i] = number(root, r, i);
  }
  OK(ended(way,
           sinew_scatter_v(j->all, is_root ? out : NULL, is_root ? shared.counts : NULL, shared_at, in, own, SINEW_I32,
                           root, here, w),
           &work));
  for (size_t i = 0; i < own; ++i) REQUIRE(in[i] == number(root, j->rank, i));
  free(in);
  free(out);

  in = elements_of(SINEW_I32, sent.total);
  out = elements_of(SINEW_I32, taken.total);
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < sent.counts[r]; ++i) in[sent.at[r] + i] = number(j->rank, r, i);
  }
  OK(ended(way, sinew_all_to_all_v(j->all, in, sent.counts, sent_at, out, taken.counts, taken_at, SINEW_I32, here, w),
           &work));
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < taken.counts[r]; ++i) REQUIRE(out[taken.at[r] + i] == number(r, j->rank, i));
  }
  free(in);
  free(out);
}

void test_v_forms(const job* j) {
  REQUIRE(j->size <= MOST_RANKS);
  for (int way = 0; way < WAYS; ++way) {
    test_v(j, 0, way);
    test_v(j, 1, way);
  }
}

static int32_t* filled(int from, int to, uint64_t count) {
  int32_t* data = elements_of(SINEW_I32, (size_t)count);
  for (size_t i = 0; i < count; ++i) data[i] = number(from, to, i);
  return data;
}

static void test_list(const job* j, int way) {
  const int ranks = j->size;
  const int root = 0;
  const int is_root = j->rank == root;
  sinew_work work = {0};
  sinew_work* const w = work_of(way, &work);
  const sinew_call_options* here = SINEW_OPTIONS();
  uint64_t shared[MOST_RANKS];
  uint64_t sent[MOST_RANKS];
  uint64_t taken[MOST_RANKS];
  void* given[MOST_RANKS];
  void* got[MOST_RANKS];
  void* from_all[MOST_RANKS];
  void* of_all[MOST_RANKS];
  for (int r = 0; r < ranks; ++r) {
    shared[r] = length(r, 1);
    sent[r] = length(j->rank, r);
    taken[r] = length(r, j->rank);
    given[r] = filled(j->rank, r, sent[r]);
    got[r] = elements_of(SINEW_I32, (size_t)taken[r]);
    from_all[r] = elements_of(SINEW_I32, (size_t)shared[r]);
    of_all[r] = filled(j->rank, r, shared[r]);
  }
  const uint64_t own = shared[j->rank];
  int32_t* mine = filled(j->rank, 1, own);

  OK(ended(way, sinew_all_gather_list(j->all, mine, from_all, shared, SINEW_I32, here, w), &work));
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < shared[r]; ++i) REQUIRE(((int32_t*)from_all[r])[i] == number(r, 1, i));
    memset(from_all[r], 0, (size_t)shared[r] * 4);
  }
  OK(ended(way,
           sinew_gather_list(j->all, mine, (size_t)own, is_root ? from_all : NULL, is_root ? shared : NULL, SINEW_I32,
                             root, here, w),
           &work));
  for (int r = 0; r < ranks && is_root; ++r) {
    for (size_t i = 0; i < shared[r]; ++i) REQUIRE(((int32_t*)from_all[r])[i] == number(r, 1, i));
  }
  OK(ended(way, sinew_all_to_all_list(j->all, (const void* const*)given, sent, got, taken, SINEW_I32, here, w), &work));
  for (int r = 0; r < ranks; ++r) {
    for (size_t i = 0; i < taken[r]; ++i) REQUIRE(((int32_t*)got[r])[i] == number(r, j->rank, i));
  }
  OK(ended(way,
           sinew_reduce_scatter_list(j->all, (const void* const*)of_all, mine, shared, SINEW_I32, SINEW_SUM, here, w),
           &work));
  for (size_t i = 0; i < own; ++i) {
    int32_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += number(r, j->rank, i);
    REQUIRE(mine[i] == sum);
  }
  OK(ended(way,
           sinew_scatter_list(j->all, is_root ? (const void* const*)of_all : NULL, is_root ? shared : NULL, mine,
                              (size_t)own, SINEW_I32, root, here, w),
           &work));
  for (size_t i = 0; i < own; ++i) REQUIRE(mine[i] == number(root, j->rank, i));
  for (int r = 0; r < ranks; ++r) {
    free(given[r]);
    free(got[r]);
    free(from_all[r]);
    free(of_all[r]);
  }
  free(mine);
}

void test_lists(const job* j) {
  for (int way = 0; way < WAYS; ++way) test_list(j, way);
}
