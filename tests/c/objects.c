/// Worlds, communicators, memory, works and continuations.
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

static void test_communicators(const job* j) {
  int number = -1;
  OK(sinew_communicator_rank(j->all, &number));
  REQUIRE(number == j->rank);
  OK(sinew_communicator_size(j->all, &number));
  REQUIRE(number == j->size);
  char text[256];
  OK(sinew_communicator_name(j->all, text, sizeof text, NULL));
  char expected[64];
  snprintf(expected, sizeof expected, "world of %d", j->size);
  REQUIRE(strcmp(text, expected) == 0);
  sinew_communicator same = {0};
  OK(sinew_world_communicator(j->world, &same));
  REQUIRE(same.id == j->all.id);
  REFUSED(sinew_communicator_free(&same), SINEW_INVALID_ARGUMENT, "which sinew_world_free frees");

  // In reverse order, by the parity of the rank.
  sinew_communicator half = {0};
  OK(sinew_communicator_split(j->all, j->rank % 2, -j->rank, NULL, SINEW_OPTIONS(), &half));
  int half_size = 0;
  int half_rank = 0;
  OK(sinew_communicator_size(half, &half_size));
  OK(sinew_communicator_rank(half, &half_rank));
  REQUIRE(half_size == (j->size + 1 - j->rank % 2) / 2);
  OK(sinew_communicator_world_rank(half, half_rank, &number));
  REQUIRE(number == j->rank);
  REFUSED(sinew_communicator_world_rank(half, half_size, &number), SINEW_INVALID_ARGUMENT, "rank is");
  OK(sinew_communicator_name(half, text, sizeof text, NULL));
  snprintf(expected, sizeof expected, "split %d at objects.c:", j->rank % 2);
  REQUIRE(strstr(text, expected) != NULL);
  OK(sinew_communicator_rank_text(half, half_rank, text, sizeof text, NULL));
  snprintf(expected, sizeof expected, "rank %d", j->rank);
  REQUIRE(strstr(text, expected) != NULL);
  int32_t sum = j->rank;
  OK(sinew_all_reduce(half, &sum, &sum, 1, SINEW_I32, SINEW_SUM, NULL, NULL));
  int32_t wanted = 0;
  for (int r = j->rank % 2; r < j->size; r += 2) wanted += r;
  REQUIRE(sum == wanted);
  size_t bytes = 0;
  OK(sinew_communicator_memory_bytes(half, &bytes));
  OK(sinew_communicator_verdict(half, text, sizeof text, NULL));
  REQUIRE(text[0] == '\0');
  const sinew_communicator stale = half;
  OK(sinew_communicator_free(&half));
  REQUIRE(half.id == 0);
  REFUSED(sinew_barrier(stale, NULL, NULL), SINEW_INVALID_ARGUMENT, "was freed, or never made");
  REFUSED(sinew_barrier(half, NULL, NULL), SINEW_INVALID_ARGUMENT, "the communicator is the null handle");

  // A color below 0 gives nothing.
  sinew_communicator part = {1};
  OK(sinew_communicator_split(j->all, j->rank == 0 ? 3 : -1, 0, "first", NULL, &part));
  REQUIRE((part.id != 0) == (j->rank == 0));
  if (part.id != 0) {
    OK(sinew_communicator_name(part, text, sizeof text, NULL));
    REQUIRE(strcmp(text, "first of 1") == 0);
    OK(sinew_communicator_free(&part));
  }

  // All ranks but the last, in reverse order.
  if (j->size > 1 && j->rank < j->size - 1) {
    int ranks[8];
    for (int r = 0; r < j->size - 1; ++r) ranks[r] = j->size - 2 - r;
    sinew_communicator some = {0};
    OK(sinew_world_subgroup(j->world, ranks, (size_t)j->size - 1, "some", 30, &some));
    OK(sinew_communicator_rank(some, &number));
    REQUIRE(number == j->size - 2 - j->rank);
    OK(sinew_barrier(some, NULL, NULL));
    // It ends by an abort, and its calls say why. Rank 0 aborts it when all others have left the barrier.
    if (number == 0) {
      for (int r = 1; r < j->size - 1; ++r) OK(sinew_recv(j->all, NULL, 0, ranks[r], 70, NULL, NULL));
      OK(sinew_communicator_abort(some, "the test ends it"));
    } else {
      OK(sinew_send(j->all, NULL, 0, ranks[0], 70, NULL, NULL));
    }
    const sinew_status status = sinew_barrier(some, NULL, NULL);
    REFUSED(status, SINEW_ABORTED, "the test ends it");
    REQUIRE(sinew_last_error_status() == SINEW_ABORTED && sinew_last_error_rank() == 0);
    OK(sinew_communicator_free(&some));
    OK(sinew_world_subgroup(j->world, ranks, (size_t)j->size - 1, "others", 30, &some));
    OK(sinew_communicator_abort_here(some, "only here"));
    REFUSED(sinew_barrier(some, NULL, NULL), SINEW_ABORTED, "only here");
    // `some` ends with the World.
  }
  REFUSED(sinew_world_subgroup(j->world, &j->size, 1, "none", 30, &part), SINEW_INVALID_ARGUMENT,
          "expected ranks from");
}

static void test_world(const job* j) {
  int number = -1;
  OK(sinew_world_rank(j->world, &number));
  REQUIRE(number == j->rank);
  OK(sinew_world_size(j->world, &number));
  REQUIRE(number == j->size);
  OK(sinew_world_status(j->world));

  size_t transports = 0;
  OK(sinew_world_transport_count(j->world, &transports));
  REQUIRE(transports > 0);
  int usable = 0;
  for (size_t i = 0; i < transports; ++i) {
    sinew_transport transport = {.struct_size = sizeof transport};
    OK(sinew_world_transport(j->world, i, &transport));
    REQUIRE(transport.name[0] != '\0' && (transport.ok || transport.reason[0] != '\0'));
    usable += transport.ok;
  }
  REQUIRE(usable > 0);
  sinew_transport none = {.struct_size = sizeof none};
  REFUSED(sinew_world_transport(j->world, transports, &none), SINEW_INVALID_ARGUMENT, "index is");

  size_t needed = 0;
  OK(sinew_world_facts(j->world, NULL, 0, &needed));
  char* facts = malloc(needed);
  REQUIRE(facts != NULL && needed > 1);
  OK(sinew_world_facts(j->world, facts, needed, NULL));
  REQUIRE(strlen(facts) + 1 == needed);
  free(facts);

  uint64_t sent[8];
  OK(sinew_world_sent_bytes(j->world, sent, (size_t)j->size));
  REFUSED(sinew_world_sent_bytes(j->world, sent, (size_t)j->size + 1), SINEW_INVALID_ARGUMENT, "one per rank");

  int descriptor = -1;
  OK(sinew_world_descriptor(j->world, &descriptor));
  struct pollfd readable = {.fd = descriptor, .events = POLLIN};
  REQUIRE(poll(&readable, 1, 0) >= 0);
  OK(sinew_world_poll(j->world, &number));
  REQUIRE(number >= 0);
  OK(sinew_world_poll(j->world, NULL));
}

static void test_memory(const job* j) {
  sinew_memory memory = {0};
  OK(sinew_world_allocate(j->world, 1 << 16, 0, &memory));
  void* data = NULL;
  size_t bytes = 0;
  OK(sinew_memory_get(memory, &data, &bytes));
  REQUIRE(data != NULL && bytes >= 1 << 16);
  int64_t* numbers = data;
  for (size_t i = 0; i < 8192; ++i) REQUIRE(numbers[i] == 0);
  for (size_t i = 0; i < 8192; ++i) numbers[i] = (int64_t)i;
  OK(sinew_all_reduce(j->all, numbers, numbers, 8192, SINEW_I64, SINEW_SUM, NULL, NULL));
  for (size_t i = 0; i < 8192; ++i) REQUIRE(numbers[i] == (int64_t)i * j->size);
  char text[256];
  OK(sinew_memory_known_as(memory, text, sizeof text, NULL));
  REQUIRE(strstr(text, "memory") != NULL);
  const sinew_memory stale = memory;
  OK(sinew_memory_free(&memory));
  REFUSED(sinew_memory_get(stale, &data, &bytes), SINEW_INVALID_ARGUMENT, "was freed, or never made");
  REFUSED(sinew_world_allocate(j->world, SIZE_MAX, 0, &memory), SINEW_INVALID_ARGUMENT, "expected at most");
  REQUIRE(memory.id == 0);
  // No rank of these tests has a device.
  REFUSED(sinew_communicator_allocate(j->all, 4096, NULL, &memory), SINEW_UNAVAILABLE, "");
}

static void test_stats(const job* j) {
  char text[64];
  REFUSED(sinew_communicator_stats(j->all, text, sizeof text, NULL), SINEW_INVALID_ARGUMENT, "nothing was gathered");
  OK(sinew_communicator_gather_stats(j->all, NULL));
  size_t needed = 0;
  OK(sinew_communicator_stats(j->all, NULL, 0, &needed));
  char* json = malloc(needed);
  REQUIRE(json != NULL);
  OK(sinew_communicator_stats(j->all, json, needed, NULL));
  REQUIRE(strstr(json, "\"collective\":\"all_reduce\"") != NULL && strstr(json, "\"time_median_s\":") != NULL);
  free(json);
}

void test_objects(const job* j) {
  test_world(j);
  test_communicators(j);
  test_memory(j);
  test_stats(j);
}

typedef struct told {
  atomic_int times;
  sinew_status status;
  char message[200];
} told;

static void tell(sinew_status status, const char* message, int rank, void* context) {
  told* t = context;
  (void)rank;
  t->status = status;
  snprintf(t->message, sizeof t->message, "%s", message);
  atomic_fetch_add(&t->times, 1);
}

static void wait_until_told(const told* t, int times) {
  for (int ms = 0; ms < 30000 && atomic_load(&t->times) < times; ++ms) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  REQUIRE(atomic_load(&t->times) == times);
}

void test_works(const job* j) {
  // Several calls in flight, waited for together.
  int32_t sums[16];
  sinew_work works[18] = {{0}};
  for (int k = 0; k < 16; ++k) {
    sums[k] = k + j->rank;
    OK(sinew_all_reduce(j->all, &sums[k], &sums[k], 1, SINEW_I32, SINEW_SUM, SINEW_OPTIONS(.label = "one of many"),
                        &works[k + 1]));
  }
  OK(sinew_wait_all(works, 18, 30));  // the first and the last are null
  for (int k = 0; k < 16; ++k) {
    REQUIRE(works[k + 1].id == 0);
    REQUIRE(sums[k] == k * j->size + j->size * (j->size - 1) / 2);
  }
  OK(sinew_wait_all(NULL, 0, 30));

  // A receive whose message has not been sent is pending.
  int got = 0;
  int sent = 5;
  sinew_work receive = {0};
  OK(sinew_recv(j->all, &got, sizeof got, j->rank, 77, NULL, &receive));
  REQUIRE(sinew_wait_for(&receive, 0.001) == SINEW_PENDING);
  REQUIRE(sinew_test(&receive) == SINEW_PENDING);
  REQUIRE(sinew_wait_all(&receive, 1, 0.001) == SINEW_PENDING);
  int done = -1;
  OK(sinew_work_done(receive, &done));
  REQUIRE(done == 0);
  told pending = {.times = 0};
  OK(sinew_work_then(receive, tell, &pending));
  OK(sinew_send(j->all, &sent, sizeof sent, j->rank, 77, NULL, NULL));
  OK(sinew_work_order(receive, (sinew_stream){NULL, -1}, 30));
  OK(sinew_work_done(receive, &done));
  REQUIRE(done == 1 && got == 5);
  told ended_before = {.times = 0};
  OK(sinew_work_then(receive, tell, &ended_before));
  wait_until_told(&ended_before, 1);
  wait_until_told(&pending, 1);
  REQUIRE(pending.status == SINEW_OK && pending.message[0] == '\0');
  const sinew_work copy = receive;
  OK(sinew_wait(&receive));
  REQUIRE(receive.id == 0);
  REFUSED(sinew_wait(&receive), SINEW_INVALID_ARGUMENT, "it was waited for already");
  sinew_work twice = copy;
  REFUSED(sinew_wait(&twice), SINEW_INVALID_ARGUMENT, "was waited for or freed, or never made");
  REFUSED(sinew_work_then(copy, tell, NULL), SINEW_INVALID_ARGUMENT, "was waited for or freed");

  // A work that nobody waits for.
  OK(sinew_barrier(j->all, NULL, &receive));
  OK(sinew_work_free(&receive));
  OK(sinew_barrier(j->all, NULL, NULL));

  // A failure tells its rank, and the continuation the same.
  sinew_communicator part = {0};
  OK(sinew_communicator_split(j->all, 0, 0, "ends", NULL, &part));
  told failed = {.times = 0};
  OK(sinew_recv(part, &got, sizeof got, j->rank, 1, SINEW_OPTIONS(.label = "a receive without a send"), &receive));
  OK(sinew_work_then(receive, tell, &failed));
  OK(sinew_communicator_abort_here(part, "on purpose"));
  const sinew_status status = sinew_wait_for(&receive, 30);
  REFUSED(status, SINEW_ABORTED, "on purpose");
  wait_until_told(&failed, 1);
  REQUIRE(failed.status == SINEW_ABORTED && strstr(failed.message, "on purpose") != NULL);

  // A failure is not lost if sinew_wait_all() is called again, because another call had not ended.
  sinew_work some[2] = {{0}};
  sinew_communicator ended = {0};
  OK(sinew_communicator_split(j->all, 0, 0, "has ended", NULL, &ended));
  OK(sinew_recv(ended, &got, sizeof got, j->rank, 1, NULL, &some[0]));
  OK(sinew_recv(j->all, &got, sizeof got, j->rank, 78, NULL, &some[1]));
  OK(sinew_communicator_abort_here(ended, "before the other"));
  REQUIRE(sinew_wait_all(some, 2, 0.05) == SINEW_PENDING);
  REQUIRE(some[0].id != 0 && some[1].id != 0);
  sinew_work doubled[3] = {some[0], {0}, some[0]};
  REFUSED(sinew_wait_all(doubled, 3, 1), SINEW_INVALID_ARGUMENT, "twice, expected each work once");
  OK(sinew_send(j->all, &sent, sizeof sent, j->rank, 78, NULL, NULL));
  REFUSED(sinew_wait_all(some, 2, 30), SINEW_ABORTED, "before the other");
  REQUIRE(some[0].id == 0 && some[1].id == 0);

  // A deadline ends the communicator. The error names the caller's line and label.
  sinew_communicator late = {0};
  OK(sinew_communicator_split(j->all, 0, 0, "late", NULL, &late));
  const sinew_status timeout =
      sinew_recv(late, &got, sizeof got, j->rank, 1, SINEW_OPTIONS(.deadline_s = 0.05, .label = "never sent"), NULL);
  REFUSED(timeout, SINEW_TIMEOUT, "objects.c:");
  REQUIRE(strstr(sinew_last_error_message(), "for never sent") != NULL);
}
