/// Bad input to every function of the C API: each gives a status with one sentence, and nothing crashes.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define BAD(call, part) REFUSED((call), SINEW_INVALID_ARGUMENT, (part))

static float in[16];
static float out[16];

static void refuse_numbers(sinew_communicator all) {
  BAD(sinew_all_reduce(all, in, out, 1, (sinew_dtype)77, SINEW_SUM, NULL, NULL), "dtype is 77, expected 0 to 14");
  BAD(sinew_all_reduce(all, in, out, 1, (sinew_dtype)-1, SINEW_SUM, NULL, NULL), "dtype is -1, expected 0 to 14");
  BAD(sinew_all_reduce(all, in, out, 1, (sinew_dtype)256, SINEW_SUM, NULL, NULL), "dtype is 256");
  BAD(sinew_all_reduce(all, in, out, 1, SINEW_F32, (sinew_op)10, NULL, NULL), "op is 10, expected 0 to 9");
  BAD(sinew_all_reduce(all, in, out, 1, SINEW_F32, SINEW_BIT_OR, NULL, NULL), "not defined for f32");
  BAD(sinew_all_reduce(all, in, out, 1, SINEW_F32, SINEW_USER, NULL, NULL),
      "no function: expected CallOptions::user, in C the member reduce");
  BAD(sinew_all_reduce(all, in, out, SIZE_MAX, SINEW_F32, SINEW_SUM, NULL, NULL), "address space");
  BAD(sinew_all_reduce(all, in, out, SIZE_MAX / 4, SINEW_F32, SINEW_SUM, NULL, NULL), "address space");
  BAD(sinew_all_gather(all, in, out, SIZE_MAX / 2, SINEW_U8, NULL, NULL), "");
  BAD(sinew_all_reduce(all, in, in + 1, 2, SINEW_F32, SINEW_SUM, NULL, NULL), "overlap");
  BAD(sinew_broadcast(all, in, 1, SINEW_F32, 1, NULL, NULL), "root is 1, expected 0 to 0");
  BAD(sinew_reduce(all, in, out, 1, SINEW_F32, SINEW_SUM, -1, NULL, NULL), "root is -1");
  BAD(sinew_gather(all, in, out, 1, SINEW_F32, 9, NULL, NULL), "root is 9");
  BAD(sinew_scatter(all, in, out, 1, SINEW_F32, 9, NULL, NULL), "root is 9");
  BAD(sinew_send(all, in, 4, 1, 0, NULL, NULL), "to_rank is 1");
  BAD(sinew_recv(all, in, 4, -1, 0, NULL, NULL), "from_rank is -1");
  BAD(sinew_send(all, in, SIZE_MAX, 0, 0, NULL, NULL), "expected at most");

  sinew_call_options options = SINEW_CALL_OPTIONS_INIT;
  options.determinism = (sinew_determinism)3;
  BAD(sinew_barrier(all, &options, NULL), "determinism is 3");
  options.determinism = SINEW_FAST;
  options.codec = (sinew_codec)-5;
  BAD(sinew_barrier(all, &options, NULL), "codec is -5");
  options.codec = SINEW_CODEC_NONE;
  options.memory_kind = (sinew_memory_kind)4;
  BAD(sinew_barrier(all, &options, NULL), "memory_kind is 4");
  options.memory_kind = SINEW_HOST;
  options.deadline_s = NAN;
  BAD(sinew_barrier(all, &options, NULL), "deadline_s is not a number");
  options.deadline_s = 1e300;
  OK(sinew_barrier(all, &options, NULL));
  options.struct_size = sizeof options - 1;
  BAD(sinew_barrier(all, &options, NULL), "struct_size of sinew_call_options is");
  options.struct_size = 0;
  BAD(sinew_barrier(all, &options, NULL), "struct_size of sinew_call_options is 0");
  options.struct_size = SIZE_MAX;
  BAD(sinew_barrier(all, &options, NULL), "struct_size");

  const uint64_t huge = UINT64_MAX;
  const uint64_t one = 1;
  BAD(sinew_all_gather_v(all, in, out, &huge, NULL, SINEW_F32, NULL, NULL), "part 0 of out");
  BAD(sinew_all_gather_v(all, in, out, &one, &huge, SINEW_F32, NULL, NULL), "part 0 of out");
  BAD(sinew_scatter_v(all, in, &one, NULL, out, 2, SINEW_F32, 0, NULL, NULL), "expected 1");
  void* const outs[] = {out};
  BAD(sinew_all_gather_list(all, in, outs, &huge, SINEW_F32, NULL, NULL), "address space");

  REQUIRE(strcmp(sinew_dtype_name((sinew_dtype)99), "?") == 0 && strcmp(sinew_dtype_name(SINEW_BF16), "bf16") == 0);
  REQUIRE(strcmp(sinew_op_name((sinew_op)-1), "?") == 0 && strcmp(sinew_op_name(SINEW_SUM), "sum") == 0);
  REQUIRE(strcmp(sinew_status_name((sinew_status)11), "?") == 0);
  REQUIRE(strcmp(sinew_status_name(SINEW_PEER_LOST), "PeerLost") == 0);
  REQUIRE(strcmp(sinew_collective_name((sinew_collective)17), "?") == 0);
  REQUIRE(strcmp(sinew_collective_name(SINEW_ALL_GATHER_V), "all_gather_v") == 0);
  REQUIRE(sinew_dtype_size((sinew_dtype)15) == 0 && sinew_dtype_size(SINEW_F64) == 8);
  REQUIRE(strchr(sinew_version(), '.') != NULL);
}

static void refuse_null_pointers(sinew_world world, sinew_communicator all) {
  BAD(sinew_all_reduce(all, NULL, out, 1, SINEW_F32, SINEW_SUM, NULL, NULL), "in is null, expected 4 bytes");
  BAD(sinew_all_reduce(all, in, NULL, 1, SINEW_F32, SINEW_SUM, NULL, NULL), "out is null, expected 4 bytes");
  OK(sinew_all_reduce(all, NULL, NULL, 0, SINEW_F32, SINEW_SUM, NULL, NULL));
  BAD(sinew_broadcast(all, NULL, 1, SINEW_F32, 0, NULL, NULL), "data is null");
  BAD(sinew_all_gather_v(all, in, out, NULL, NULL, SINEW_F32, NULL, NULL), "out_counts is a null pointer");
  BAD(sinew_reduce_scatter_v(all, in, out, NULL, NULL, SINEW_F32, SINEW_SUM, NULL, NULL),
      "in_counts is a null pointer");
  const uint64_t one = 1;
  BAD(sinew_all_to_all_v(all, in, &one, NULL, out, NULL, NULL, SINEW_F32, NULL, NULL), "out_counts is a null pointer");
  BAD(sinew_gather_v(all, in, 1, out, NULL, NULL, SINEW_F32, 0, NULL, NULL), "out_counts is a null pointer");
  BAD(sinew_scatter_v(all, in, NULL, NULL, out, 1, SINEW_F32, 0, NULL, NULL), "in_counts is a null pointer");
  BAD(sinew_all_gather_list(all, in, NULL, &one, SINEW_F32, NULL, NULL), "outs is a null pointer");
  void* const outs[] = {NULL};
  const void* const ins[] = {NULL};
  BAD(sinew_all_gather_list(all, in, outs, NULL, SINEW_F32, NULL, NULL), "counts is a null pointer");
  BAD(sinew_all_gather_list(all, in, outs, &one, SINEW_F32, NULL, NULL), "outs[0] is null");
  BAD(sinew_reduce_scatter_list(all, ins, out, &one, SINEW_F32, SINEW_SUM, NULL, NULL), "ins[0] is null");
  BAD(sinew_all_to_all_list(all, NULL, &one, outs, &one, SINEW_F32, NULL, NULL), "ins is a null pointer");
  BAD(sinew_gather_list(all, in, 1, NULL, NULL, SINEW_F32, 0, NULL, NULL), "outs is a null pointer");
  BAD(sinew_scatter_list(all, NULL, NULL, out, 1, SINEW_F32, 0, NULL, NULL), "ins is a null pointer");
  BAD(sinew_send(all, NULL, 4, 0, 0, NULL, NULL), "from is null");
  BAD(sinew_recv_any(all, NULL, 4, 0, NULL, NULL, NULL), "to is null");
  BAD(sinew_group(all, NULL, 1, NULL, NULL), "messages is a null pointer");
  const sinew_message unset = {.sends = 1, .unused = 0xcdcdcdcd};
  BAD(sinew_group(all, &unset, 1, NULL, NULL), "unused of a sinew_message is 3452816845, expected 0");
  int source = 0;
  sinew_work work = {0};
  BAD(sinew_recv_any(all, in, 4, 0, &source, NULL, &work), "both source and work are given");
  BAD(sinew_wait(NULL), "work is a null pointer");
  BAD(sinew_wait_for(NULL, 1), "work is a null pointer");
  BAD(sinew_test(NULL), "work is a null pointer");
  BAD(sinew_wait_source(NULL, 1, &source), "work is a null pointer");
  BAD(sinew_wait_all(NULL, 2, 1), "works is a null pointer");
  BAD(sinew_wait_all(NULL, 0, NAN), "seconds is not a number");
  BAD(sinew_work_free(NULL), "work is a null pointer");
  BAD(sinew_work_done(work, &source), "the work is the null handle");
  BAD(sinew_work_order(work, (sinew_stream){NULL, -1}, 1), "the work is the null handle");
  OK(sinew_barrier(all, NULL, &work));
  BAD(sinew_work_then(work, NULL, NULL), "run is a null pointer");
  BAD(sinew_work_done(work, NULL), "done is a null pointer");
  BAD(sinew_wait_source(&work, 1, NULL), "source is a null pointer");
  OK(sinew_wait(&work));

  BAD(sinew_world_from_environment(NULL, NULL), "world is a null pointer");
  BAD(sinew_world_free(NULL), "world is a null pointer");
  BAD(sinew_world_rank(world, NULL), "rank is a null pointer");
  BAD(sinew_world_size(world, NULL), "size is a null pointer");
  BAD(sinew_world_communicator(world, NULL), "communicator is a null pointer");
  BAD(sinew_world_transport_count(world, NULL), "count is a null pointer");
  BAD(sinew_world_transport(world, 0, NULL), "transport is a null pointer");
  BAD(sinew_world_facts(world, NULL, 1, NULL), "text is a null pointer, but bytes is 1");
  REFUSED(sinew_world_sent_bytes(world, NULL, 1), SINEW_UNAVAILABLE, "without count_sent");
  BAD(sinew_world_abort(world, NULL), "reason is a null pointer");
  BAD(sinew_world_shrink(world, NULL), "next is a null pointer");
  BAD(sinew_world_descriptor(world, NULL), "descriptor is a null pointer");
  BAD(sinew_world_allocate(world, 1, 0, NULL), "memory is a null pointer");
  sinew_communicator part = {7};
  const int self = 0;
  BAD(sinew_world_subgroup(world, NULL, 1, "a", 1, &part), "ranks is a null pointer");
  BAD(sinew_world_subgroup(world, &self, 1, NULL, 1, &part), "name is a null pointer");
  BAD(sinew_world_subgroup(world, &self, SIZE_MAX, "a", 1, &part), "count is");
  BAD(sinew_world_subgroup(world, &self, 0, "a", 1, &part), "count is 0, expected 1 to 1");
  REQUIRE(part.id == 0);
  BAD(sinew_world_subgroup(world, &self, 1, "a", 1, NULL), "communicator is a null pointer");
  BAD(sinew_communicator_rank(all, NULL), "rank is a null pointer");
  BAD(sinew_communicator_size(all, NULL), "size is a null pointer");
  BAD(sinew_communicator_world_rank(all, 0, NULL), "world_rank is a null pointer");
  BAD(sinew_communicator_split(all, 0, 0, NULL, NULL, NULL), "part is a null pointer");
  BAD(sinew_communicator_split(all, 0, 0, "a name that is far too long for a communicator of this library", NULL,
                               &part),
      "expected 47 at most");
  BAD(sinew_communicator_free(NULL), "communicator is a null pointer");
  BAD(sinew_communicator_allocate(all, 1, NULL, NULL), "memory is a null pointer");
  BAD(sinew_communicator_abort(all, NULL), "reason is a null pointer");
  BAD(sinew_communicator_abort_here(all, NULL), "reason is a null pointer");
  BAD(sinew_communicator_memory_bytes(all, NULL), "bytes is a null pointer");
  BAD(sinew_communicator_set_stream_priority(all, (sinew_stream_priority)2), "priority is 2, expected 0 to 1");
  sinew_plan plan = {0};
  BAD(sinew_communicator_plan(all, NULL, &plan), "description is a null pointer");
  sinew_call_description description = SINEW_CALL_DESCRIPTION_INIT;
  BAD(sinew_communicator_plan(all, &description, NULL), "plan is a null pointer");
  description.collective = (sinew_collective)17;
  BAD(sinew_communicator_plan(all, &description, &plan), "collective is 17, expected 0 to 16");
  description.collective = SINEW_ALL_GATHER_V;
  BAD(sinew_communicator_plan(all, &description, &plan), "counts is a null pointer");
  description.collective = SINEW_ALL_REDUCE;
  description.count = UINT64_MAX;
  BAD(sinew_communicator_plan(all, &description, &plan), "address space");
  description.count = 1;
  description.unused = 7;
  BAD(sinew_communicator_plan(all, &description, &plan), "unused of sinew_call_description is 7, expected 0");
  description.struct_size = 3;
  BAD(sinew_communicator_plan(all, &description, &plan), "struct_size of sinew_call_description is 3");
  BAD(sinew_plan_free(NULL), "plan is a null pointer");
  BAD(sinew_plan_free(&plan), "the plan is the null handle");
  BAD(sinew_plan_json(plan, NULL, 0, NULL), "the plan is the null handle");
  BAD(sinew_memory_free(NULL), "memory is a null pointer");
  BAD(sinew_memory_free(&(sinew_memory){0}), "the memory is the null handle");
  OK(sinew_barrier(all, NULL, NULL));
}

static void refuse_handles(sinew_world world, sinew_communicator all) {
  BAD(sinew_barrier((sinew_communicator){world.id}, NULL, NULL),
      "expected the handle of a communicator, found that of a World");
  int rank = 0;
  BAD(sinew_world_rank((sinew_world){all.id}, &rank), "found that of a communicator");
  BAD(sinew_barrier((sinew_communicator){UINT64_MAX}, NULL, NULL), "is not valid");
  BAD(sinew_barrier((sinew_communicator){12345}, NULL, NULL), "is not valid");
  for (uint64_t bit = 0; bit < 64; ++bit) {
    BAD(sinew_barrier((sinew_communicator){all.id ^ (UINT64_C(1) << bit)}, NULL, NULL), "sinew_barrier: ");
  }
  OK(sinew_barrier(all, NULL, NULL));
}

static sinew_status gathers(void* context, const void* mine, size_t bytes, sinew_gathered* all) {
  const int mode = *(const int*)context;
  if (mode == 1) return SINEW_TIMEOUT;
  if (mode == 2) return (sinew_status)4711;
  if (mode == 3) return SINEW_OK;  // without bytes
  BAD(sinew_gathered_put(all, 1, mine, bytes), "rank is 1, expected 0 to 0");
  BAD(sinew_gathered_put(all, 0, NULL, 1), "bytes is a null pointer");
  return sinew_gathered_put(all, 0, mine, bytes);
}

static void refuse_worlds(void) {
  sinew_world world = {3};
  sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
  options.threads = (sinew_threads)2;
  BAD(sinew_world_from_environment(&options, &world), "threads is 2, expected 0 to 1");
  options = (sinew_world_options)SINEW_WORLD_OPTIONS_INIT;
  options.struct_size = 8;
  BAD(sinew_world_from_environment(&options, &world), "struct_size of sinew_world_options is 8");
  options = (sinew_world_options)SINEW_WORLD_OPTIONS_INIT;
  options.secret_bytes = 4;
  BAD(sinew_world_from_environment(&options, &world), "secret is a null pointer");
  options.secret = "four";
  options.secret_bytes = SIZE_MAX;
  BAD(sinew_world_from_environment(&options, &world), "secret_bytes is 18446744073709551615, expected at most 1048576");
  options = (sinew_world_options)SINEW_WORLD_OPTIONS_INIT;
  options.config_count = 1;
  BAD(sinew_world_from_environment(&options, &world), "config is a null pointer");
  const char* entries[] = {"SINEW_TIMEOUT=5x", "SINEW_NO_SUCH=1", "SINEW_ALONE=1", "no equals sign", NULL};
  const char* parts[] = {"expected a duration", "no such variable", "only the environment", "expected NAME=VALUE",
                         "an entry of config is a null pointer"};
  for (int i = 0; i < 5; ++i) {
    options.config = entries + i;
    BAD(sinew_world_from_environment(&options, &world), parts[i]);
  }

  int mode = 0;
  sinew_exchange exchange = {sizeof exchange, 0, 1, gathers, &mode};
  BAD(sinew_world_create(NULL, NULL, &world), "exchange is a null pointer");
  exchange.all_gather = NULL;
  BAD(sinew_world_create(&exchange, NULL, &world), "all_gather is a null pointer");
  exchange.all_gather = gathers;
  exchange.struct_size = 1;
  BAD(sinew_world_create(&exchange, NULL, &world), "struct_size of sinew_exchange is 1");
  exchange.struct_size = sizeof exchange;
  exchange.rank = 1;
  BAD(sinew_world_create(&exchange, NULL, &world), "rank 1 of 1");
  exchange.rank = 0;
  exchange.size = -1;
  BAD(sinew_world_create(&exchange, NULL, &world), "rank 0 of -1");
  exchange.size = 1;
  mode = 1;
  REFUSED(sinew_world_create(&exchange, NULL, &world), SINEW_TIMEOUT, "all_gather returned 6 (Timeout)");
  mode = 2;
  REFUSED(sinew_world_create(&exchange, NULL, &world), SINEW_SYSTEM, "all_gather returned 4711 (?)");
  mode = 3;
  BAD(sinew_world_create(&exchange, NULL, &world), "without the bytes of rank 0");
  REQUIRE(world.id == 0);
  BAD(sinew_gathered_put(NULL, 0, &mode, 4), "all is a null pointer");
  mode = 0;
  OK(sinew_world_create(&exchange, NULL, &world));
  OK(sinew_world_free(&world));
  BAD(sinew_world_free(&world), "the World is the null handle");
}

/// A wait without seconds ends at the configured timeout, and says which call it was.
static void end_waits_at_the_timeout(void) {
  const char* config[] = {"SINEW_TIMEOUT=50ms"};
  sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
  options.config = config;
  options.config_count = 1;
  sinew_world world = {0};
  sinew_communicator all = {0};
  OK(sinew_world_from_environment(&options, &world));
  OK(sinew_world_communicator(world, &all));
  for (int way = 0; way < 4; ++way) {
    sinew_communicator part = {0};
    sinew_work works[2] = {{0}};
    int source = 7;
    OK(sinew_communicator_split(all, 0, 0, "late", NULL, &part));
    for (int k = 0; k < 2; ++k) OK(sinew_recv(part, in, 4, 0, 1, SINEW_OPTIONS(.label = "never sent"), &works[k]));
    const sinew_status status = way == 0   ? sinew_wait(&works[0])
                                : way == 1 ? sinew_wait_for(&works[0], 0)
                                : way == 2 ? sinew_wait_source(&works[0], -1, &source)
                                           : sinew_wait_all(works, 2, 0);
    REFUSED(status, SINEW_TIMEOUT, "for never sent");
    REQUIRE(works[0].id == 0 && (works[1].id == 0) == (way == 3) && source == (way == 2 ? -1 : 7));
    if (way != 3) REFUSED(sinew_wait(&works[1]), SINEW_TIMEOUT, "");
    OK(sinew_communicator_free(&part));
  }
  OK(sinew_world_free(&world));
}

static void refuse_in_child(sinew_world world, sinew_communicator all) {
  sinew_work work = {0};
  sinew_communicator part = {0};
  sinew_memory memory = {0};
  OK(sinew_communicator_split(all, 0, 0, "forked", NULL, &part));
  OK(sinew_barrier(all, NULL, &work));
  OK(sinew_world_allocate(world, 64, 0, &memory));
  fflush(NULL);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const char* const why = "this process was forked since the World was made";
    int rank = 0;
    BAD(sinew_world_rank(world, &rank), why);
    BAD(sinew_barrier(all, NULL, NULL), why);
    BAD(sinew_wait(&work), why);
    OK(sinew_work_free(&work));
    OK(sinew_communicator_free(&part));
    OK(sinew_memory_free(&memory));
    OK(sinew_world_free(&world));
    BAD(sinew_barrier(all, NULL, NULL), "was freed, or never made");
    // A World of its own works.
    OK(sinew_world_from_environment(NULL, &world));
    OK(sinew_world_communicator(world, &all));
    OK(sinew_barrier(all, NULL, NULL));
    OK(sinew_world_free(&world));
    fflush(NULL);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(sinew_wait(&work));
  OK(sinew_memory_free(&memory));
  OK(sinew_communicator_free(&part));
  OK(sinew_barrier(all, NULL, NULL));
}

/// Forks within a call of `world`, and frees it in the child. The next World takes its place, and works.
static void fork_within(sinew_status status, const char* message, int rank, void* context) {
  (void)status, (void)message, (void)rank;
  for (int threads = SINEW_THREADS_SINGLE; threads <= SINEW_THREADS_MULTIPLE; ++threads) {
    fflush(NULL);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      sinew_world world = *(const sinew_world*)context;
      sinew_communicator all = {0};
      sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
      options.threads = (sinew_threads)threads;
      OK(sinew_world_free(&world));
      OK(sinew_world_from_environment(&options, &world));
      OK(sinew_world_communicator(world, &all));
      OK(sinew_barrier(all, NULL, NULL));
      OK(sinew_world_free(&world));
      fflush(NULL);
      _exit(0);
    }
    int ended = 0;
    REQUIRE(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  }
}

static void fork_within_a_call(sinew_world world, sinew_communicator all) {
  sinew_work work = {0};
  OK(sinew_barrier(all, NULL, &work));
  // After the call has ended, sinew_work_then() calls the function itself.
  OK(sinew_work_order(work, (sinew_stream){NULL, -1}, 30));
  OK(sinew_work_then(work, fork_within, &world));
  OK(sinew_wait(&work));
}

typedef struct receiver {
  sinew_communicator communicator;
  double deadline_s;
  sinew_status status;
  atomic_int ready;
  int got;
} receiver;

static void* receive(void* argument) {
  receiver* r = argument;
  sinew_call_options options = SINEW_CALL_OPTIONS_INIT;
  options.deadline_s = r->deadline_s;
  atomic_store(&r->ready, 1);
  r->status = sinew_recv(r->communicator, &r->got, sizeof r->got, 0, 5, &options, NULL);
  return NULL;
}

/// Starts a thread that waits for a message inside the library.
static pthread_t start(receiver* r) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, receive, r) == 0);
  while (!atomic_load(&r->ready)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  return thread;
}

typedef struct intruder {
  sinew_world world;
  sinew_communicator all;
} intruder;

/// Tries to use a World while the thread that made it waits inside.
static void* intrude(void* argument) {
  const intruder* i = argument;
  nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  const char* const why = "another thread is inside the World";
  int rank = 0;
  BAD(sinew_world_rank(i->world, &rank), why);
  BAD(sinew_barrier(i->all, NULL, NULL), why);
  return NULL;
}

static void* use(void* argument) {
  const intruder* i = argument;
  OK(sinew_barrier(i->all, NULL, NULL));
  return NULL;
}

static void on_another_thread(void* (*function)(void*), intruder* i) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, function, i) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
}

static void refuse_threads_beside_the_maker(sinew_world world, sinew_communicator all) {
  intruder i = {world, all};
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, intrude, &i) == 0);
  receiver r = {.deadline_s = 1};
  OK(sinew_communicator_split(all, 0, 0, "the maker", NULL, &r.communicator));
  receive(&r);
  REQUIRE(r.status == SINEW_TIMEOUT);
  REQUIRE(pthread_join(thread, NULL) == 0);
  // The World goes on. Threads that take turns may use it.
  OK(sinew_barrier(all, NULL, NULL));
  on_another_thread(use, &i);
  OK(sinew_barrier(all, NULL, NULL));
  on_another_thread(use, &i);
}

static void refuse_second_thread(sinew_world world, sinew_communicator all) {
  receiver r = {.deadline_s = 1.5};
  OK(sinew_communicator_split(all, 0, 0, "one thread", NULL, &r.communicator));
  const pthread_t thread = start(&r);
  const char* const why = "another thread is inside the World";
  int rank = 0;
  BAD(sinew_barrier(all, NULL, NULL), why);
  BAD(sinew_world_rank(world, &rank), why);
  sinew_communicator part = r.communicator;
  BAD(sinew_communicator_free(&part), why);
  BAD(sinew_world_free(&world), "another thread uses the World");
  REQUIRE(pthread_join(thread, NULL) == 0);
  REQUIRE(r.status == SINEW_TIMEOUT);
  OK(sinew_barrier(all, NULL, NULL));
}

static void refuse_to_free_in_use(sinew_world world, sinew_communicator all) {
  receiver r = {.deadline_s = 30};
  OK(sinew_communicator_split(all, 0, 0, "in use", NULL, &r.communicator));
  const pthread_t thread = start(&r);
  sinew_communicator part = r.communicator;
  BAD(sinew_communicator_free(&part), "another thread uses the communicator");
  BAD(sinew_world_free(&world), "another thread uses the communicator");
  // The failed attempts have left everything as it was.
  OK(sinew_barrier(all, NULL, NULL));
  const int sent = 9;
  OK(sinew_send(part, &sent, sizeof sent, 0, 5, NULL, NULL));
  REQUIRE(pthread_join(thread, NULL) == 0);
  REQUIRE(r.status == SINEW_OK && r.got == 9);
  OK(sinew_communicator_free(&part));
}

int main(void) {
  for (int threads = SINEW_THREADS_SINGLE; threads <= SINEW_THREADS_MULTIPLE; ++threads) {
    sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
    options.threads = (sinew_threads)threads;
    sinew_world world;
    sinew_communicator all;
    OK(sinew_world_from_environment(&options, &world));
    OK(sinew_world_communicator(world, &all));
    refuse_numbers(all);
    refuse_null_pointers(world, all);
    refuse_handles(world, all);
    refuse_in_child(world, all);
    fork_within_a_call(world, all);
    if (threads == SINEW_THREADS_SINGLE) {
      refuse_threads_beside_the_maker(world, all);
      refuse_second_thread(world, all);
    } else {
      refuse_to_free_in_use(world, all);
    }
    OK(sinew_world_free(&world));
  }
  refuse_worlds();
  end_waits_at_the_timeout();
  printf("%ld checks\n", checks_made());
  return 0;
}
