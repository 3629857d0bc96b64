#include <string>
#include <string_view>

#include <gmock/gmock.h>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/csv.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "../refusals.hpp"

namespace sinew::parallel {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

TEST(ActionText, GoesThereAndBack) {
  for (int kind = 0; kind <= int(ActionKind::Reduce); ++kind) {
    for (const std::int32_t number : {0, 7, 2147483647}) {
      const Action a{ActionKind(kind), number, has_micro_batch(ActionKind(kind)) ? number : -1};
      EXPECT_EQ(parse_action(to_string(a)), a) << to_string(a);
    }
  }
  EXPECT_EQ(to_string(Action{ActionKind::SendActivation, 2, 0}), "2SEND_F0");
  EXPECT_EQ(to_string(Action{ActionKind::Unshard, 2}), "2UNSHARD");
  EXPECT_EQ(parse_action("3REDUCE_GRAD"), (Action{ActionKind::Reduce, 3}));
}

TEST(ActionText, RefusesAnythingElse) {
  for (const std::string_view text : {"", "F0", "2F", "20", "2X0", "2f0", "-2F0", "2F-1", "2F 0", "2UNSHARD0", "2SEND0",
                                      "2FF0", "2F0x", "2147483648F0", "2F99999999999", "2F0,"})
    EXPECT_EQ(parse_action(text), std::nullopt) << text;
}

TEST(Csv, GoesThereAndBack) {
  for (const NamedGenerator& g : generators()) {
    const PipelineSchedule alone = g.make(3, 4, g.virtual_stages(2));
    const PipelineSchedule all = with_sharding(with_messages(with_recompute(alone)), 1);
    for (const PipelineSchedule& schedule : {alone, all}) EXPECT_EQ(from_csv(to_csv(schedule), g.name), schedule);
  }
  const PipelineSchedule idle{
      .name = "idle", .micro_batches = 1, .rank_of = {1}, .actions = {{}, gpipe(1, 1).actions[0]}};
  EXPECT_EQ(to_csv(idle), ",\n0F0,0B0\n");
  EXPECT_EQ(from_csv(to_csv(idle), "idle"), idle);
}

TEST(Csv, ReadsWhatPyTorchWrites) {
  // Computation alone, in time steps: cells may be empty. Lines end as csv.writer ends them.
  const PipelineSchedule alone = from_csv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1I0,1F1,1W0,1B1,\r\n", "compute_only");
  EXPECT_EQ(alone.rank_of, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(alone.micro_batches, 2);
  EXPECT_EQ(to_csv(alone), "0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1W0,1B1\n");
  EXPECT_TRUE(prove(alone, {.messages = false}));
  EXPECT_TRUE(prove(with_messages(alone)));
  const PipelineSchedule lowered = from_csv(
      "0UNSHARD,0F0,0SEND_F0,3UNSHARD,3RECV_F0,3F0,3B0,3SEND_B0,3REDUCE_GRAD,3RESHARD,0RECV_B0,0B0,0REDUCE_GRAD,"
      "0RESHARD"
      "\r\n1UNSHARD,2UNSHARD,1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,2REDUCE_GRAD,2RESHARD,1B0,1SEND_B0,1REDUCE_GRAD,"
      "1RESHARD\r\n",
      "compute_comms");
  EXPECT_EQ(lowered.rank_of, (std::vector<std::int32_t>{0, 1, 1, 0}));
  const PipelineVerdict verdict = prove(lowered);
  EXPECT_TRUE(verdict) << verdict.reason;
  EXPECT_EQ(to_csv(from_csv("0F0,0F1,(0B0;0B1)OVERLAP_F_B\n", "together")), "0F0,0F1,0B0,0B1\n");
}

TEST(Csv, ReadsLinesWithBlanksAndWithoutAnEnd) {
  EXPECT_EQ(to_csv(from_csv(" 0F0 ,\t0B0", "x")), "0F0,0B0\n");
  EXPECT_EQ(to_csv(from_csv("0F0,0B0\n\n\r\n", "x")), "0F0,0B0\n");
}

TEST(Csv, NamesLineAndCellOfWhatIsWrong) {
  const auto said = [](std::string_view text) { return refusal_of([&] { (void)from_csv(text, "bad"); }); };
  EXPECT_THAT(said(""), HasSubstr("schedule 'bad': no line: expected one per rank"));
  EXPECT_THAT(said("\n\n"), HasSubstr("no line: expected one per rank"));
  EXPECT_THAT(said("0F0,0B0\n\n1F0,1B0\n"), HasSubstr("line 2 is empty: expected the actions of rank 1"));
  EXPECT_THAT(said("0F0,0Q0\n"), HasSubstr("line 1, cell 2: '0Q0': expected a stage, one of F, B, I, W, R, SEND_F"));
  EXPECT_THAT(said("0F0,0B0\n1F0,,hello\n"), HasSubstr("line 2, cell 3: 'hello': expected a stage"));
  EXPECT_THAT(said("0UNSHARD\n"), HasSubstr("no forward pass: expected one per stage and micro-batch, such as 0F0"));
  EXPECT_THAT(said("0F0,0B0\n5F0,5B0\n"), HasSubstr("line 2, cell 1: 5F0: stage 5 is out of range: 2 forward passes"));
  EXPECT_THAT(said("0F0,0B0,0F9\n"), HasSubstr("line 1, cell 3: 0F9: micro-batch 9 is out of range: 2 forward passes"));
  EXPECT_THAT(said("0F2147483647\n"),
              HasSubstr("line 1, cell 1: 0F2147483647: micro-batch 2147483647 is out of range"));
  EXPECT_THAT(said("0F0,0B0\n2F0,2B0,2F1\n"), HasSubstr("no line has stage 1: expected 0..2"));
  EXPECT_THAT(said("0F0,0B0\n1F0,1B0,0F1\n"), HasSubstr("line 2, cell 3: 0F1: stage 0 is on line 1"));
  EXPECT_THAT(said("0F0,0B0,,0F0\n"), HasSubstr("line 1, cell 4: 0F0 a second time"));
  EXPECT_THAT(said("0F0,0F1,0B0\n"), HasSubstr("line 1: there is no 0B1, and no 0I1 and 0W1 either"));
  EXPECT_THAT(said("0F0,0B0,0F1,0B1\n1F0,1B0\n"), HasSubstr("line 2: there is no 1F1"));
  EXPECT_THAT(said("0F0,0I0\n"), HasSubstr("line 1: there is no 0W0"));
  EXPECT_THAT(said("0F0,0W0\n"), HasSubstr("line 1: there is no 0I0"));
  EXPECT_THAT(said("0F0,0B0,0W0\n"), HasSubstr("line 1, cell 3: 0W0: 0B0 does the same"));
  EXPECT_THAT(said("0F0,0SEND_F0,0B0\n1F0,1B0\n"), HasSubstr("line 1: there is no 0RECV_B0"));
  EXPECT_THAT(said("0F0,0SEND_F0,1F0,1B0,0B0\n"), HasSubstr("line 1, cell 2: 0SEND_F0: there is no other rank"));
  EXPECT_THAT(said("0F0,1F0,1B0,1REDUCE,0B0\n"), HasSubstr("line 1: there is no 0REDUCE; stage 1 has one"));
}

}  // namespace
}  // namespace sinew::parallel
