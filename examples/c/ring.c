/* Each rank passes a token to its right while it computes. Then rank 0 does not send what its neighbour waits for: the
   error names the line, and the others go on. Try: sinew-run -n 3 build/release/bin/c_ring_example */
#include <sinew.h>
#include <stdio.h>

#define TRY(call) \
  if ((call) != SINEW_OK) return failed(#call)

static int failed(const char* call) {
  fprintf(stderr, "%s: %s, rank %d: %s\n", call, sinew_status_name(sinew_last_error_status()), sinew_last_error_rank(),
          sinew_last_error_message());
  return 1;
}

static void told(sinew_status status, const char* message, int rank, void* context) {
  (void)rank;
  printf("rank %d is told: %s %s\n", *(const int*)context, sinew_status_name(status), message);
}

int main(void) {
  static int rank; /* outlives every call that is told of */
  int size;
  sinew_world world;
  sinew_communicator all;
  sinew_communicator ring;
  TRY(sinew_world_from_environment(NULL, &world));
  TRY(sinew_world_communicator(world, &all));
  TRY(sinew_communicator_rank(all, &rank));
  TRY(sinew_communicator_size(all, &size));
  TRY(sinew_communicator_split(all, 0, 0, "ring", SINEW_OPTIONS(), &ring));

  const int left = (rank + size - 1) % size;
  const int right = (rank + 1) % size;
  int sent = 10 * rank;
  int received = -1;
  sinew_work work;
  TRY(sinew_sendrecv(ring, &sent, sizeof sent, right, 0, &received, sizeof received, left, 0,
                     SINEW_OPTIONS(.label = "the token"), &work));
  TRY(sinew_work_then(work, told, &rank));
  /* The rank could compute here. */
  TRY(sinew_wait(&work));
  printf("rank %d received %d from rank %d\n", rank, received, left);

  /* A receive that nobody answers ends at its deadline, and ends its communicator on all ranks. */
  const sinew_status status = sinew_recv(ring, &received, sizeof received, left, 1,
                                         SINEW_OPTIONS(.deadline_s = 0.2, .label = "no token"), NULL);
  printf("rank %d: %s: %s\n", rank, sinew_status_name(status), sinew_last_error_message());
  TRY(sinew_communicator_free(&ring));
  TRY(sinew_barrier(all, SINEW_OPTIONS(), NULL));
  TRY(sinew_world_free(&world));
  return status == SINEW_TIMEOUT && received == 10 * left ? 0 : 1;
}
