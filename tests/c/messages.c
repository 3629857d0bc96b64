/// Messages, groups of messages, and plans.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void test_messages(const job* j) {
  const int left = (j->rank + j->size - 1) % j->size;
  const int right = (j->rank + 1) % j->size;
  const sinew_call_options* here = SINEW_OPTIONS(.label = "ring");
  int sent = 100 + j->rank;
  int got = 0;

  for (int way = 0; way < WAYS; ++way) {
    sinew_work work = {0};
    sinew_work* const w = work_of(way, &work);
    got = 0;
    OK(ended(way, sinew_sendrecv(j->all, &sent, sizeof sent, right, 7, &got, sizeof got, left, 7, here, w), &work));
    REQUIRE(got == 100 + left);

    sinew_work receive = {0};
    got = 0;
    OK(sinew_recv(j->all, &got, sizeof got, left, 8, here, &receive));
    OK(ended(way, sinew_send(j->all, &sent, sizeof sent, right, 8, NULL, w), &work));
    OK(sinew_wait(&receive));
    REQUIRE(got == 100 + left);

    int from_left = 0;
    int from_right = 0;
    const sinew_message messages[] = {
        {.sends = 1, .peer = right, .memory = &sent, .bytes = sizeof sent, .tag = 1},
        {.sends = 1, .peer = left, .memory = &sent, .bytes = sizeof sent, .tag = 2},
        {.sends = 0, .peer = left, .memory = &from_left, .bytes = sizeof from_left, .tag = 1},
        {.sends = 0, .peer = right, .memory = &from_right, .bytes = sizeof from_right, .tag = 2},
    };
    OK(ended(way, sinew_group(j->all, messages, 4, here, w), &work));
    REQUIRE(from_left == 100 + left && from_right == 100 + right);
    OK(ended(way, sinew_group(j->all, NULL, 0, NULL, w), &work));
  }

  // Rank 0 takes a message of each rank, whoever comes first.
  sinew_work work = {0};
  OK(sinew_send(j->all, &sent, sizeof sent, 0, 9, NULL, &work));
  for (int k = 0; j->rank == 0 && k < j->size; ++k) {
    int source = -2;
    if (k % 2 == 0) {
      OK(sinew_recv_any(j->all, &got, sizeof got, 9, &source, NULL, NULL));
    } else {
      sinew_work any = {0};
      OK(sinew_recv_any(j->all, &got, sizeof got, 9, NULL, NULL, &any));
      OK(sinew_wait_source(&any, 30, &source));
    }
    REQUIRE(source >= 0 && got == 100 + source);
  }
  OK(sinew_wait(&work));

  // A message that is too long for its receive.
  char longer[16] = "0123456789abcde";
  char shorter[4];
  sinew_work receive = {0};
  OK(sinew_recv(j->all, shorter, sizeof shorter, left, 10, NULL, &receive));
  OK(sinew_send(j->all, longer, sizeof longer, right, 10, NULL, &work));
  const sinew_status cut = sinew_wait(&receive);
  REFUSED(cut, SINEW_TRUNCATED, "16");
  OK(sinew_wait(&work));
}

static char* explained(sinew_plan plan, sinew_status (*tell)(sinew_plan, char*, size_t, size_t*)) {
  size_t needed = 0;
  OK(tell(plan, NULL, 0, &needed));
  char* text = malloc(needed);
  REQUIRE(text != NULL);
  OK(tell(plan, text, needed, NULL));
  REQUIRE(strlen(text) + 1 == needed);
  char cut[6];
  OK(tell(plan, cut, sizeof cut, &needed));
  REQUIRE(strncmp(cut, text, 5) == 0 && cut[5] == '\0' && needed == strlen(text) + 1);
  return text;
}

static void add(void* result, const void* a, const void* b, size_t count, const void* context) {
  (void)context;
  for (size_t i = 0; i < count; ++i) ((double*)result)[i] = ((const double*)a)[i] + ((const double*)b)[i];
}

void test_plans(const job* j) {
  enum { COUNT = 100 };
  sinew_call_description description = SINEW_CALL_DESCRIPTION_INIT;
  description.collective = SINEW_ALL_REDUCE;
  description.dtype = SINEW_F64;
  description.count = COUNT;
  sinew_plan sum = {0};
  OK(sinew_communicator_plan(j->all, &description, &sum));
  char* text = explained(sum, sinew_plan_explain);
  REQUIRE(strstr(text, "all_reduce(f64, sum, count 100)") != NULL && strstr(text, "takes") != NULL);
  free(text);
  text = explained(sum, sinew_plan_json);
  REQUIRE(text[0] == '{' && strstr(text, "\"candidates\":[") != NULL);
  free(text);

  description.op = SINEW_USER;
  description.reduce = add;
  sinew_plan user = {0};
  OK(sinew_communicator_plan(j->all, &description, &user));
  description = (sinew_call_description)SINEW_CALL_DESCRIPTION_INIT;
  description.collective = SINEW_ALL_GATHER;
  description.dtype = SINEW_F64;
  description.count = COUNT;
  sinew_plan gather = {0};
  OK(sinew_communicator_plan(j->all, &description, &gather));
  description.collective = SINEW_BROADCAST;
  sinew_plan broadcast = {0};
  OK(sinew_communicator_plan(j->all, &description, &broadcast));

  double* in = elements_of(SINEW_F64, COUNT);
  double* out = elements_of(SINEW_F64, COUNT * (size_t)j->size);
  for (int way = 0; way < WAYS; ++way) {
    sinew_work work = {0};
    sinew_work* const w = work_of(way, &work);
    for (size_t i = 0; i < COUNT; ++i) in[i] = (double)j->rank + (double)i;
    const double ranks = (double)j->size;
    const sinew_plan plans[] = {sum, user};
    for (int k = 0; k < 2; ++k) {
      memset(out, 0, COUNT * sizeof *out);
      OK(ended(way, sinew_run(j->all, plans[k], in, out, SINEW_OPTIONS(), w), &work));
      for (size_t i = 0; i < COUNT; ++i) REQUIRE(out[i] == ranks * (ranks - 1) / 2 + ranks * (double)i);
    }
    OK(ended(way, sinew_run(j->all, gather, in, out, NULL, w), &work));
    for (size_t i = 0; i < COUNT * (size_t)j->size; ++i) REQUIRE(out[i] == (double)(i / COUNT) + (double)(i % COUNT));
    OK(ended(way, sinew_run(j->all, broadcast, NULL, in, NULL, w), &work));
    for (size_t i = 0; i < COUNT; ++i) REQUIRE(in[i] == (double)i);
  }
  free(in);
  free(out);

  description.collective = SINEW_ALL_GATHER_V;
  uint64_t counts[8];
  for (int r = 0; r < j->size; ++r) counts[r] = (uint64_t)r + 1;
  description.counts = counts;
  sinew_plan parts = {0};
  OK(sinew_communicator_plan(j->all, &description, &parts));
  double part[8];
  double all_parts[64];
  for (int i = 0; i <= j->rank; ++i) part[i] = (double)(10 * j->rank + i);
  OK(sinew_run(j->all, parts, part, all_parts, NULL, NULL));
  size_t at = 0;
  for (int r = 0; r < j->size; ++r) {
    for (int i = 0; i <= r; ++i) REQUIRE(all_parts[at++] == (double)(10 * r + i));
  }

  description.collective = SINEW_SEND;
  sinew_plan message = {0};
  if (j->size > 1) {
    OK(sinew_communicator_plan(j->all, &description, &message));
    REFUSED(sinew_run(j->all, message, part, all_parts, NULL, NULL), SINEW_INVALID_ARGUMENT, "not of messages");
    OK(sinew_plan_free(&message));
  } else {
    REFUSED(sinew_communicator_plan(j->all, &description, &message), SINEW_INVALID_ARGUMENT, "no transport leads");
  }
  OK(sinew_plan_free(&parts));
  OK(sinew_plan_free(&user));
  REFUSED(sinew_run(j->all, user, part, all_parts, NULL, NULL), SINEW_INVALID_ARGUMENT, "the plan is the null handle");
  const sinew_plan stale = sum;
  OK(sinew_plan_free(&sum));
  REFUSED(sinew_run(j->all, stale, part, all_parts, NULL, NULL), SINEW_INVALID_ARGUMENT, "was freed, or never made");
  // `gather` and `broadcast` end with the World.
}
