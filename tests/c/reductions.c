/// Every dtype with every operator, by every collective that reduces.
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { FIRST_DTYPE = SINEW_I8, LAST_DTYPE = SINEW_U16, LAST_OP = SINEW_USER };

static int is_float(sinew_dtype d) { return d >= SINEW_F16 && d <= SINEW_F8E5M2; }

/// True if the operator is defined for the type.
static int is_defined(sinew_op op, sinew_dtype d) {
  if (op >= SINEW_BIT_AND && op <= SINEW_BIT_XOR) return !is_float(d);
  if (op == SINEW_AVERAGE) return d != SINEW_BOOL;
  return op != SINEW_PREMULSUM || is_float(d);
}

/// The number that rank `r` contributes to element `i`: 1 or 2, of bools 0 or 1. To averages all ranks contribute the
/// same.
static int given(sinew_dtype d, sinew_op op, int r, size_t i) {
  const int odd = (int)(((size_t)(op == SINEW_AVERAGE ? 0 : r) + i) % 2);
  return d == SINEW_BOOL ? odd : 1 + odd;
}

static int combined(sinew_dtype d, sinew_op op, int a, int b) {
  if (d == SINEW_BOOL) {
    switch (op) {
      case SINEW_PRODUCT:
      case SINEW_MIN:
      case SINEW_BIT_AND: return a & b;
      case SINEW_BIT_XOR: return a ^ b;
      default: return a | b;
    }
  }
  switch (op) {
    case SINEW_PRODUCT: return a * b;
    case SINEW_MIN: return a < b ? a : b;
    case SINEW_USER:  // the maximum, too
    case SINEW_MAX: return a > b ? a : b;
    case SINEW_BIT_AND: return a & b;
    case SINEW_BIT_OR: return a | b;
    case SINEW_BIT_XOR: return a ^ b;
    default: return a + b;
  }
}

/// The operator of the tests: the maximum, which of positive numbers is that of their bits. `context` is the type.
static void larger(void* result, const void* a, const void* b, size_t count, const void* context) {
  const size_t each = sinew_dtype_size(*(const sinew_dtype*)context);
  for (size_t i = 0; i < count; ++i) {
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, (const char*)a + i * each, each);
    memcpy(&y, (const char*)b + i * each, each);
    memcpy((char*)result + i * each, x > y ? &x : &y, each);
  }
}

/// The result at element `i`.
static int expected(const job* j, sinew_dtype d, sinew_op op, size_t i) {
  int result = given(d, op, 0, i);
  for (int r = 1; r < j->size; ++r) result = combined(d, op, result, given(d, op, r, i));
  if (op == SINEW_AVERAGE) return given(d, op, 0, i);
  return op == SINEW_PREMULSUM ? 2 * result : result;
}

static void fill(const job* j, sinew_dtype d, sinew_op op, void* in, size_t count) {
  for (size_t i = 0; i < count; ++i) put(d, in, i, given(d, op, j->rank, i));
}

static void require_result(const job* j, sinew_dtype d, sinew_op op, const void* out, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) REQUIRE(is_number(d, out, i, expected(j, d, op, first + i)));
}

static void test_one(const job* j, sinew_dtype d, sinew_op op, size_t count, int way) {
  const size_t ranks = (size_t)j->size;
  sinew_call_options options = SINEW_CALL_OPTIONS_INIT;
  options.pre_multiply = 2;
  options.reduce = op == SINEW_USER ? larger : NULL;
  options.reduce_context = &d;
  options.label = way == TESTED ? "conformance" : NULL;
  const int root = j->size - 1;
  const int is_root = j->rank == root;
  sinew_work work = {0};
  sinew_work* const w = work_of(way, &work);
  void* in = elements_of(d, ranks * count);
  void* out = elements_of(d, ranks * count);

  fill(j, d, op, in, count);
  OK(ended(way, sinew_all_reduce(j->all, in, out, count, d, op, &options, w), &work));
  require_result(j, d, op, out, 0, count);
  OK(ended(way, sinew_all_reduce(j->all, in, in, count, d, op, &options, w), &work));
  require_result(j, d, op, in, 0, count);

  fill(j, d, op, in, count);
  OK(ended(way, sinew_reduce(j->all, in, is_root ? out : NULL, count, d, op, root, &options, w), &work));
  if (is_root) require_result(j, d, op, out, 0, count);
  OK(ended(way, sinew_reduce(j->all, in, is_root ? in : NULL, count, d, op, root, &options, w), &work));
  if (is_root) require_result(j, d, op, in, 0, count);

  fill(j, d, op, in, ranks * count);
  const size_t mine = (size_t)j->rank * count;
  OK(ended(way, sinew_reduce_scatter(j->all, in, out, count, d, op, &options, w), &work));
  require_result(j, d, op, out, mine, count);
  void* own = (char*)in + mine * sinew_dtype_size(d);
  OK(ended(way, sinew_reduce_scatter(j->all, in, own, count, d, op, &options, w), &work));
  require_result(j, d, op, own, mine, count);
  free(in);
  free(out);
}

typedef struct caller {
  sinew_world world;
  sinew_status status;
  int calls;
} caller;

static void calls_back(void* result, const void* a, const void* b, size_t count, const void* context) {
  caller* c = (caller*)context;
  int rank = 0;
  c->status = sinew_world_rank(c->world, &rank);
  ++c->calls;
  for (size_t i = 0; i < count; ++i) ((int32_t*)result)[i] = ((const int32_t*)a)[i] + ((const int32_t*)b)[i];
}

/// A reducer that calls the library is refused where the World sees it.
static void test_calling_back(const job* j) {
  caller c = {.world = j->world, .status = SINEW_OK};
  int32_t sum[64] = {1};
  sinew_call_options options = SINEW_CALL_OPTIONS_INIT;
  options.reduce = calls_back;
  options.reduce_context = &c;
  OK(sinew_all_reduce(j->all, sum, sum, 64, SINEW_I32, SINEW_USER, &options, NULL));
  REQUIRE(sum[0] == j->size);
  if (c.calls > 0) REFUSED(c.status, SINEW_INVALID_ARGUMENT, "a function that a call runs has called this one");
}

void test_reductions(const job* j) {
  if (!j->multiple) test_calling_back(j);
  for (int d = FIRST_DTYPE; d <= LAST_DTYPE; ++d) {
    for (int op = SINEW_SUM; op <= LAST_OP; ++op) {
      const sinew_dtype dtype = (sinew_dtype)d;
      const sinew_op o = (sinew_op)op;
      if (is_defined(o, dtype)) {
        // Sums of f8e5m2 are exact up to 8, so no more than four ranks add twos.
        const size_t counts[] = {1, 0, 7, 1031};
        for (size_t c = 0; c < 4; ++c) test_one(j, dtype, o, counts[c], (d + op + (int)c) % WAYS);
      } else {
        char numbers[64] = {0};
        REFUSED(sinew_all_reduce(j->all, numbers, numbers, 1, dtype, o, NULL, NULL), SINEW_INVALID_ARGUMENT,
                "is not defined for");
      }
    }
  }
  // The bits that depend on the order of additions stay the same where the caller asks for it.
  const float mine = j->rank == 0 ? 16777216.0F : 0.75F;
  float first = 0;
  OK(sinew_all_reduce(j->all, &mine, &first, 1, SINEW_F32, SINEW_SUM, SINEW_OPTIONS(.determinism = SINEW_REPRODUCIBLE),
                      NULL));
  for (int again = 0; again < 3; ++again) {
    float sum = 0;
    OK(sinew_all_reduce(j->all, &mine, &sum, 1, SINEW_F32, SINEW_SUM, SINEW_OPTIONS(.determinism = SINEW_REPRODUCIBLE),
                        NULL));
    REQUIRE(memcmp(&sum, &first, sizeof sum) == 0);
  }
  float coded[300];
  for (size_t i = 0; i < 300; ++i) coded[i] = (float)(i % 4);
  OK(sinew_all_reduce(j->all, coded, coded, 300, SINEW_F32, SINEW_SUM,
                      SINEW_OPTIONS(.codec = SINEW_CODEC_BF16, .deadline_s = 60), NULL));
  for (size_t i = 0; i < 300; ++i) REQUIRE(coded[i] == (float)(i % 4) * (float)j->size);
}
