/// Calls every function of the C API with checked data.
///   c_conformance [single|multiple]           on the job that starts it
///   c_conformance [single|multiple] THREADS   ranks are threads of this process
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "thread_exchange.h"

/// `side`: null on the job that starts the program.
static void test_all(int multiple, thread_side* side) {
  job j = {.multiple = multiple};
  const char* config[] = {"SINEW_TIMEOUT=60s", "SINEW_STATS=1"};
  sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
  options.threads = multiple ? SINEW_THREADS_MULTIPLE : SINEW_THREADS_SINGLE;
  options.count_sent = 1;
  options.config = config;
  options.config_count = 2;
  if (side == NULL) {
    OK(sinew_world_from_environment(&options, &j.world));
  } else {
    const sinew_exchange exchange = exchange_of(side);
    OK(sinew_world_create(&exchange, &options, &j.world));
  }
  OK(sinew_world_communicator(j.world, &j.all));
  OK(sinew_communicator_rank(j.all, &j.rank));
  OK(sinew_communicator_size(j.all, &j.size));

  test_reductions(&j);
  test_blocks(&j);
  test_v_forms(&j);
  test_lists(&j);
  test_messages(&j);
  test_plans(&j);
  test_objects(&j);
  test_works(&j);

  // Memory of the World outlives it. Everything else ends with it.
  sinew_memory memory = {0};
  sinew_communicator part = {0};
  OK(sinew_world_allocate(j.world, 100, 0, &memory));
  OK(sinew_communicator_split(j.all, 0, 0, "last", NULL, &part));
  OK(sinew_barrier(j.all, NULL, NULL));
  const sinew_world stale = j.world;
  OK(sinew_world_free(&j.world));
  REQUIRE(j.world.id == 0);
  int rank = 0;
  REFUSED(sinew_world_rank(stale, &rank), SINEW_INVALID_ARGUMENT, "was freed, or never made");
  REFUSED(sinew_barrier(j.all, NULL, NULL), SINEW_INVALID_ARGUMENT, "was freed, or never made");
  REFUSED(sinew_barrier(part, NULL, NULL), SINEW_INVALID_ARGUMENT, "was freed, or never made");
  void* data = NULL;
  OK(sinew_memory_get(memory, &data, NULL));
  memset(data, 1, 100);
  OK(sinew_memory_free(&memory));
}

typedef struct rank {
  thread_side side;
  int multiple;
  pthread_t thread;
} rank;

static void* run_rank(void* argument) {
  rank* r = argument;
  test_all(r->multiple, &r->side);
  return NULL;
}

int main(int argc, char** argv) {
  const int multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
  if (argc > 2) {
    static thread_board board;
    static rank ranks[MOST_THREADS];
    make_board(&board, atoi(argv[2]));
    for (int r = 0; r < board.size; ++r) {
      ranks[r] = (rank){.side = {&board, r}, .multiple = multiple};
      REQUIRE(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]) == 0);
    }
    for (int r = 0; r < board.size; ++r) REQUIRE(pthread_join(ranks[r].thread, NULL) == 0);
  } else {
    test_all(multiple, NULL);
  }
  printf("%ld checks\n", checks_made());
  return 0;
}
