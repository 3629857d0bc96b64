#include "check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long made = 0;

long checks_made(void) { return atomic_load(&made); }

void require_(int holds, const char* what, const char* file, int line) {
  if (!holds) {
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
    exit(1);
  }
  atomic_fetch_add(&made, 1);
}

void require_ok_(sinew_status status, const char* what, const char* file, int line) {
  if (status != SINEW_OK) {
    fprintf(stderr, "%s:%d: %s: %s of rank %d: %s\n", file, line, what, sinew_status_name(status),
            sinew_last_error_rank(), sinew_last_error_message());
    exit(1);
  }
  atomic_fetch_add(&made, 1);
}

void require_refused_(sinew_status status, sinew_status expected, const char* part, const char* what, const char* file,
                      int line) {
  const char* message = sinew_last_error_message();
  if (status != expected || strstr(message, part) == NULL) {
    fprintf(stderr, "%s:%d: %s: expected %s with '%s', found %s: %s\n", file, line, what, sinew_status_name(expected),
            part, sinew_status_name(status), message);
    exit(1);
  }
  atomic_fetch_add(&made, 1);
}

void* elements_of(sinew_dtype dtype, size_t count) {
  const size_t bytes = count * sinew_dtype_size(dtype);
  void* elements = malloc(bytes == 0 ? 1 : bytes);
  REQUIRE(elements != NULL);
  memset(elements, 0xa5, bytes);
  return elements;
}

/// A float with so many bits of exponent and mantissa.
static uint64_t float_bits(int number, int exponent_bits, int mantissa_bits) {
  if (number == 0) return 0;
  int exponent = 0;
  while (number >> (exponent + 1) != 0) ++exponent;
  const uint64_t bias = (UINT64_C(1) << (exponent_bits - 1)) - 1;
  const uint64_t fraction = (uint64_t)(number - (1 << exponent));
  const uint64_t mantissa =
      mantissa_bits >= exponent ? fraction << (mantissa_bits - exponent) : fraction >> (exponent - mantissa_bits);
  return ((uint64_t)exponent + bias) << mantissa_bits | mantissa;
}

static uint64_t bits_of(sinew_dtype dtype, int number) {
  switch (dtype) {
    case SINEW_F16: return float_bits(number, 5, 10);
    case SINEW_BF16: return float_bits(number, 8, 7);
    case SINEW_F32: return float_bits(number, 8, 23);
    case SINEW_F64: return float_bits(number, 11, 52);
    case SINEW_F8E4M3: return float_bits(number, 4, 3);
    case SINEW_F8E5M2: return float_bits(number, 5, 2);
    default: return (uint64_t)number;
  }
}

void put(sinew_dtype dtype, void* elements, size_t i, int number) {
  const uint64_t bits = bits_of(dtype, number);  // little-endian: the low bytes come first
  memcpy((char*)elements + i * sinew_dtype_size(dtype), &bits, sinew_dtype_size(dtype));
}

int is_number(sinew_dtype dtype, const void* elements, size_t i, int number) {
  const uint64_t bits = bits_of(dtype, number);
  return memcmp((const char*)elements + i * sinew_dtype_size(dtype), &bits, sinew_dtype_size(dtype)) == 0;
}

sinew_work* work_of(int way, sinew_work* work) { return way == WAITS ? NULL : work; }

sinew_status ended(int way, sinew_status started, sinew_work* work) {
  if (way == WAITS || started != SINEW_OK) return started;
  sinew_status status = SINEW_PENDING;
  if (way == WAITED) {
    status = sinew_wait(work);
  } else {
    while (status == SINEW_PENDING) status = sinew_test(work);
  }
  REQUIRE(work->id == 0);
  return status;
}
