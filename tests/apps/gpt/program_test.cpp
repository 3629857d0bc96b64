#include "program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpt::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST_F(Program, TrainsAndTells) {
  const Outcome o = gpt(2, {"--zero", "3", "--steps", "4", "--metrics", in("m"), "--plot", in("p.svg")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("parameters by zero3"), HasSubstr("12 samples a step: 2 ranks x 1 pass of 6"),
                           HasSubstr("step    3 loss")));
  EXPECT_NEAR(percent_of_predicted(o.out), 100, kPercentOff) << o.out;
  const std::string metrics = content(in("m"));
  EXPECT_EQ(lines(metrics), 4);
  EXPECT_THAT(metrics, AllOf(HasSubstr("\"loss\":"), HasSubstr("\"tokens_per_s\":"), HasSubstr("\"step\":3")));
  EXPECT_THAT(content(in("p.svg")), AllOf(HasSubstr("<svg"), HasSubstr("loss of 4 steps")));
}

TEST_F(Program, GoesOnFromWhatItSaved_OnOtherRanks) {
  const Strings all{"--dtype", "f64", "--steps", "6"};
  const auto with = [&](Strings options) {
    options.insert(options.end(), all.begin(), all.end());
    return options;
  };
  ASSERT_EQ(gpt(1, with({"--metrics", in("whole")})).exit_code, 0);
  ASSERT_EQ(gpt(3, with({"--zero", "3", "--save", in("c"), "--save-every", "4"})).exit_code, 0);
  ASSERT_TRUE(std::filesystem::remove_all(in("c/step-000006")) > 0);
  const Outcome rest = gpt(2, with({"--zero", "1", "--resume", in("c"), "--metrics", in("rest")}));
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("going on with step 4"));
  EXPECT_EQ(lines(content(in("rest"))), 2);
  const double expected = last_loss(in("whole"));
  EXPECT_GT(expected, 1);
  EXPECT_NEAR(last_loss(in("rest")) / expected, 1, 1e-9);
}

/// Rank 1 is killed as soon as there is a checkpoint; all start again and end with the losses of a run that nothing
/// befell.
TEST_F(Program, IsStartedAgainAndGoesOn_WhenARankIsKilled) {
  std::string options;
  for (const std::string& option : kTiny) options += option + " ";
  options += "--dtype f64 --zero 3 --determinism reproducible --steps 100 ";
  const std::string run = std::string("exec ") + GPT + " " + options + "--save-every 5 --save " + in("c") +
                          " --resume " + in("c") + " --metrics " + in("rest");
  const std::string script = "if [ $RANK = 1 ] && [ ! -e " + in("killed") + " ]; then (" + run + ") & " + "until ls " +
                             in("c") + "/step-* >/dev/null 2>&1; do sleep 0.01; done; touch " + in("killed") +
                             "; kill -9 $!; wait $!; exit 137; fi; " + run;
  const Outcome o = run_program({SINEW_RUN, "-n", "2", "--restarts", "1", "sh", "-c", script});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("going on with step"));
  const Outcome whole = run_program(
      {SINEW_RUN, "-n", "2", "sh", "-c", std::string("exec ") + GPT + " " + options + "--metrics " + in("whole")});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(last_loss(in("rest")), last_loss(in("whole")));
  EXPECT_GT(last_loss(in("whole")), 1);
}

TEST_F(Program, SavesAndEndsWithACodeOfItsOwn_WhenARankGetsSigterm) {
  std::string options;
  for (const std::string& option : kTiny) options += option + " ";
  const std::string run = std::string("exec ") + GPT + " " + options +
                          "--zero 3 --steps 1000000 --save-every 1000000 " + "--save " + in("c");
  const std::string script = "[ $RANK = 1 ] && echo $$ > " + in("pid") + "; " + run;
  // The signal comes to rank 1 alone, once some steps are done.
  const Outcome o = run_program({"sh", "-c",
                                 "(until grep -qs loss " + in("logs") +
                                     "/*/attempt_0/0/stdout.log; do sleep 0.01; done; kill $(cat " + in("pid") +
                                     ")) & exec timeout 120 " + SINEW_RUN + " -n 2 --restarts 3 --log-dir " +
                                     in("logs") + " sh -c '" + script + "'"});
  EXPECT_EQ(o.exit_code, 75) << o.err;
  EXPECT_THAT(o.out, HasSubstr("a signal asks for the end"));
  const std::size_t at = o.out.find("the end: step ");
  ASSERT_NE(at, std::string::npos) << o.out;
  const int last = std::stoi(o.out.substr(at + 14));
  const Outcome rest = gpt(1, {"--resume", in("c"), "--steps", std::to_string(last + 2)});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("going on with step " + std::to_string(last + 1)));
}

/// Rank 2 of 4 is killed while a checkpoint is being written: the one before is whole, and the folder that was not
/// finished is in nobody's way.
TEST_F(Program, KeepsTheCheckpointBefore_WhenOneOfFourIsKilledWhileTheySave) {
  std::string options;
  for (const std::string& option : kTiny) options += option + " ";
  options += "--dtype f64 ";
  const std::string run =
      std::string("exec ") + GPT + " " + options + "--zero 3 --steps 100000 --save-every 1 --save " + in("c");
  const std::string script = "if [ $RANK = 2 ]; then (" + run + ") & until [ -e " + in("c") +
                             "/step-000005 ] && ls -a " + in("c") +
                             " | grep -q partial; do :; done; kill -9 $!; wait $!; exit 137; fi; " + run;
  const Outcome killed = run_program({SINEW_RUN, "-n", "4", "sh", "-c", script});
  // 137, or 1 where a survivor that lost it ends before the shell around it does.
  EXPECT_THAT(killed.exit_code, AnyOf(137, 1)) << killed.err;
  EXPECT_THAT(killed.err, HasSubstr("rank 2"));
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(in("c"))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.find("partial") == std::string::npos) newest = std::max(newest, name);
  }
  ASSERT_GE(newest, "step-000005");
  const int done = std::stoi(newest.substr(5));
  const Strings to_the_end{"--dtype", "f64", "--zero", "0", "--steps", std::to_string(done + 1)};
  const auto with = [&](Strings more) {
    more.insert(more.begin(), to_the_end.begin(), to_the_end.end());
    return more;
  };
  const Outcome rest = gpt(3, with({"--resume", in("c"), "--save", in("c"), "--metrics", in("rest")}));
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("going on with step " + std::to_string(done)));
  for (const auto& entry : std::filesystem::directory_iterator(in("c")))
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << "what was not finished is gone";
}

/// Layers cut over ranks, heads and inner elements that do not divide, rows cut, too: the same losses, and what was
/// saved under one layout goes on under another.
TEST_F(Program, HasTheLossesOfOneProcess_HoweverItsLayersAreCut) {
  const Strings model{"--layers", "2", "--heads", "5", "--width", "40", "--dtype", "f64"};
  const auto losses = [&](int ranks, Strings options, const std::string& name) {
    options.insert(options.end(), model.begin(), model.end());
    options.insert(options.end(), {"--metrics", in(name)});
    const Outcome o = gpt(ranks, options);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_NEAR(percent_of_predicted(o.out), 100, kPercentOff) << o.out;
    return last_loss(in(name));
  };
  const double whole = losses(1, {"--steps", "6"}, "whole");
  EXPECT_GT(whole, 1);
  const std::vector<std::pair<int, Strings>> layouts{
      {2, {"--tp", "2"}},
      {3, {"--tp", "3", "--sp"}},
      {4, {"--tp", "2", "--sp", "--zero", "3"}},
      {5, {"--tp", "5", "--sp", "--recompute", "full"}},
      {6, {"--tp", "2", "--zero", "2", "--recompute", "selective", "--micro-batches", "2"}}};
  for (const auto& [ranks, layout] : layouts) {
    Strings options = layout;
    options.insert(options.end(), {"--steps", "6"});
    EXPECT_NEAR(losses(ranks, options, "many") / whole, 1, 1e-12) << ranks << " " << ::testing::PrintToString(layout);
  }
  const double before = losses(4, {"--tp", "4", "--sp", "--steps", "3", "--save", in("c")}, "first");
  EXPECT_GT(std::abs(before / whole - 1), 1e-6) << "steps must show";
  EXPECT_NEAR(losses(3, {"--zero", "3", "--steps", "6", "--resume", in("c")}, "rest") / whole, 1, 1e-12);
  EXPECT_NEAR(losses(6, {"--tp", "3", "--zero", "1", "--steps", "6", "--resume", in("c")}, "rest2") / whole, 1, 1e-12);
}

/// Each rank has two stages without being told so, and the loss is computed on rank 0.
TEST_F(Program, HasTheLossesOfOneProcess_InAV) {
  const auto loss = [&](int ranks, Strings options) {
    options.insert(options.end(), {"--layers", "6", "--dtype", "f64", "--steps", "5", "--metrics", in("m")});
    const Outcome o = gpt(ranks, options);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_NEAR(percent_of_predicted(o.out), 100, kPercentOff) << o.out;
    return last_loss(in("m"));
  };
  const double whole = loss(1, {});
  EXPECT_GT(whole, 1);
  for (const char* schedule : {"zb-v", "dualpipev"}) {
    EXPECT_NEAR(loss(3, {"--pp", "3", "--schedule", schedule, "--micro-batches", "6"}) / whole, 1, 1e-12) << schedule;
    EXPECT_NEAR(loss(4, {"--pp", "2", "--schedule", schedule, "--micro-batches", "2", "--zero", "1"}) / whole, 1, 1e-12)
        << schedule;
  }
  const Outcome o = gpt(2, {"--layers", "4", "--pp", "2", "--schedule", "zb-v", "--virtual-stages", "1"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("zb-v: 1 virtual stages: expected 2"));
}

/// 256 rows of the vocabulary among three: each rank's shards of what all have, positions and norms, end elsewhere.
TEST_F(Program, SavesWhatUnequalRanksShardDifferently) {
  const auto loss = [&](int ranks, Strings options) {
    options.insert(options.end(),
                   {"--context", "256", "--heads", "5", "--width", "40", "--dtype", "f64", "--metrics", in("m")});
    const Outcome o = gpt(ranks, options);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return last_loss(in("m"));
  };
  const double whole = loss(1, {"--steps", "4"});
  static_cast<void>(loss(6, {"--tp", "3", "--zero", "3", "--steps", "2", "--save", in("c")}));
  EXPECT_NEAR(loss(2, {"--steps", "4", "--resume", in("c")}) / whole, 1, 1e-12);
}

TEST_F(Program, StartsAnew_WhereItsOwnFolderIsEmpty) {
  const Outcome o = gpt(1, {"--steps", "2", "--save", in("c"), "--resume", in("c")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  const Outcome none = gpt(1, {"--steps", "2", "--resume", in("d")});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.err,
            "gpt: resume: there is no checkpoint in '" + in("d") +
                "'; expected a directory that holds one. To start without a checkpoint, leave --resume out, or "
                "give --save the same directory\n");
}

TEST_F(Program, RefusesACheckpointOfAnotherSeedOrModel) {
  ASSERT_EQ(gpt(1, {"--steps", "2", "--save", in("c")}).exit_code, 0);
  const Outcome seed = gpt(1, {"--steps", "4", "--resume", in("c"), "--seed", "2"});
  EXPECT_EQ(seed.exit_code, 2);
  EXPECT_THAT(seed.err, HasSubstr("of seed 1, asked for is 2"));
  const Outcome wide = gpt(2, {"--steps", "4", "--resume", in("c"), "--context", "4"});
  EXPECT_EQ(wide.exit_code, 2);
  EXPECT_THAT(wide.err, HasSubstr("positions.weight"));
}

/// A file takes the folder's place while it trains; where a new folder is sooner, the next time.
TEST_F(Program, GoesOnWithoutACheckpointThatCannotBeWritten) {
  std::string options;
  for (const std::string& option : kTiny) options += option + " ";
  const std::string folder = in("c");
  const std::string script =
      std::string(SINEW_RUN) + " -n 2 " + GPT + " " + options + "--steps 1000 --save-every 1 --save " + folder +
      " & until ls " + folder + "/step-* >/dev/null 2>&1; do sleep 0.01; done; i=0; until [ -f " + folder +
      " ]; do mv " + folder + " " + in("old") + "$i; true > " + folder + "; i=$((i + 1)); done 2>/dev/null; wait $!";
  const Outcome o = run_program({"sh", "-c", script});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("there is no checkpoint of 1000 steps, training goes on"), HasSubstr(folder)));
  EXPECT_THAT(o.out, HasSubstr("step  999 loss"));
}

TEST_F(Program, RefusesAFolderThatNothingCanBeSavedIn) {
  const std::string in_the_way = in("file");
  std::ofstream(in_the_way) << "no folder";
  for (const int ranks : {1, 2}) {
    const Outcome o = gpt(ranks, {"--steps", "3", "--save", in_the_way + "/c"});
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_THAT(o.err, AllOf(HasSubstr("gpt: checkpoints in '" + in_the_way + "/c': rank 0 on "),
                             HasSubstr("Not a directory")));
    EXPECT_EQ(o.out.find("loss"), std::string::npos) << o.out;
  }
}

TEST_F(Program, RefusesOptionsThatWouldDoNothing) {
  const auto complaint = [&](const Strings& options) {
    const Outcome o = gpt(1, options);
    EXPECT_EQ(o.exit_code, 2) << ::testing::PrintToString(options);
    return o.err;
  };
  EXPECT_THAT(complaint({"--schedule", "zb-h1"}),
              HasSubstr("gpt: --schedule zb-h1: expected --pp or --virtual-stages, too"));
  EXPECT_THAT(complaint({"--pp", "1", "--schedule", "foo"}), HasSubstr("schedule 'foo': expected one of gpipe"));
  EXPECT_THAT(complaint({"--save-every", "2"}), HasSubstr("gpt: --save-every: expected --save, too"));
  EXPECT_THAT(complaint({"--plan-ranks", "2"}), HasSubstr("gpt: --plan-ranks: expected --plan, too"));
  EXPECT_THAT(complaint({"--mamba", "9"}), HasSubstr("mamba 9, expected 0 to 1, as there are layers"));
  EXPECT_THAT(complaint({"--mamba", "1", "--sinks"}),
              HasSubstr("sinks of attention heads, and every block has a scan"));
  EXPECT_THAT(complaint({"--plan", "--data", in("none")}), HasSubstr("cannot read"));
  EXPECT_THAT(complaint({"--seed", "-1"}), HasSubstr("gpt: --seed: '-1': expected a whole number, 0 to "));
}

TEST_F(Program, SaysAllRulesThatAreBroken_Once) {
  const Outcome o = gpt(3, {"--zero", "7", "--batch", "16", "--ep", "3"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, AllOf(HasSubstr("breaks"), HasSubstr("engine_axes: ep 3"),
                           HasSubstr("zero: zero 7, of 0 to 3; expected zero 3")));
  // sinew-run's summary may show the last lines of that rank again.
  EXPECT_EQ(o.err.find("]   engine_axes"), o.err.rfind("]   engine_axes")) << o.err;
}

TEST_F(Program, SaysWhatItCannotRead) {
  const auto complaint = [&](const Strings& options) {
    const Outcome o = gpt(1, options);
    EXPECT_EQ(o.exit_code, 2) << o.err;
    return o.err;
  };
  EXPECT_EQ(complaint({"--dtype", "f16"}), "gpt: --dtype: 'f16': expected one of bf16, f32, f64\n");
  EXPECT_EQ(complaint({"--heads", "x"}), "gpt: --heads: 'x': expected a whole number\n");
  EXPECT_EQ(complaint({"--width", "99999999999"}),
            "gpt: --width: '99999999999': expected a whole number, 2147483647 at most\n");
  EXPECT_EQ(complaint({"--rate", "0"}), "gpt: --rate: '0': expected a number, above 0\n");
  EXPECT_EQ(complaint({"--clip", "-1"}), "gpt: --clip: '-1': expected a number, 0 or more\n");
  EXPECT_EQ(complaint({"--dropout", "nan"}), "gpt: --dropout: 'nan': expected a number\n");
  EXPECT_EQ(complaint({"--batch", "1.5"}), "gpt: --batch: '1.5': expected a whole number\n");
  EXPECT_EQ(complaint({"--config", in("none")}), "gpt: --config " + in("none") + ": it cannot be read\n");
  EXPECT_THAT(complaint({"--prefetch", "much"}), HasSubstr("'much': expected a size in bytes"));
  EXPECT_THAT(complaint({"--heads", "5"}), HasSubstr("heads 5 do not divide width 16, expected heads 4"));
  EXPECT_THAT(complaint({"--data", in("none")}), HasSubstr("cannot read"));
  for (const char* path : {"--save", "--resume", "--data", "--metrics", "--plot", "--offload", "--config"})
    EXPECT_EQ(complaint({path, ""}), fmt::format("gpt: {}: expected a value, found none\n", path));
  EXPECT_EQ(complaint({"--nonsense"}), "gpt: --nonsense: no such option; --help lists them\n");
  std::ofstream(in("config")) << "zero = 3\nspeed = 9\n";
  EXPECT_EQ(complaint({"--config", in("config")}),
            "gpt: --config " + in("config") + ", line 2: speed: no such option; --help lists them\n");
}

/// Whichever rank ends first: the launcher ends all others then.
TEST_F(Program, SaysWhatIsWrong_WhenAnotherRankEndsFirst) {
  const std::string late = std::string("[ $RANK = 0 ] && sleep 0.3; exec ") + GPT + " --batch 12 --steps 1 ";
  for (const auto& [wrong, said] : {std::pair("--data /dev/null", "has 0 bytes"),
                                    {"--zero 7", "zero: zero 7"},
                                    {"--no-such-option", "--no-such-option"}}) {
    const Outcome o = run_program({SINEW_RUN, "-n", "3", "sh", "-c", late + wrong});
    EXPECT_EQ(o.exit_code, 2) << wrong;
    EXPECT_THAT(o.err, HasSubstr(said)) << wrong;
  }
}

TEST_F(Program, ReadsItsOptionsFromAFile) {
  std::ofstream(in("config")) << "zero = 2\nsteps = 1\n";
  const Outcome o = gpt(2, {"--config", in("config"), "--zero", "1"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("parameters by zero1"), HasSubstr("step    0 loss")));
}

TEST_F(Program, PlansForRanksThatAreNotThere) {
  const Outcome o = run_program({GPT, "--plan", "--plan-ranks", "64", "--layers", "37", "--heads", "32", "--width",
                                 "4096", "--context", "2048", "--batch", "64", "--dtype", "bf16"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("7460499456 parameters of bf16"), HasSubstr("zero3"), HasSubstr("hsdp")));
}

/// One rank of two gets another option.
Outcome with_other(const Strings& options, const std::string& other) {
  std::string command = "extra=; [ \"$RANK\" = 1 ] && extra='" + other + "'; exec " GPT;
  for (const Strings& all : {kTiny, options}) {
    for (const std::string& word : all) command += " " + word;
  }
  return run_program({SINEW_RUN, "-n", "2", "sh", "-c", command + " $extra"});
}

TEST_F(Program, SaysWhatOneRankIsAskedOtherwise) {
  const Strings pipeline{"--layers", "2", "--pp", "2", "--micro-batches", "2", "--steps", "2"};
  for (const char* other : {"--context 4", "--sinks", "--rate 0.5", "--clip 0.1", "--loss-scale 8", "--overflow-at 1",
                            "--dropout 0.5", "--resume /nowhere"}) {
    const Outcome o = with_other(pipeline, other);
    EXPECT_EQ(o.exit_code, 2) << other << o.err;
    EXPECT_THAT(o.err, HasSubstr("engine of the job: rank 0 has ")) << other;
  }
  EXPECT_THAT(with_other(pipeline, "--bogus").err, HasSubstr("rank 1: ")) << "only that rank's complaint";
  EXPECT_THAT(with_other(pipeline, "--data " + in("nothing")).err,
              HasSubstr("rank 1: gpt: text: cannot read '" + in("nothing") + "': No such file"));
}

TEST_F(Program, NamesWhatIsNoNumber_WhicheverRankSeesIt) {
  for (const Strings& layout : {Strings{"--tp", "2"}, {"--cp", "2"}, {"--layers", "2", "--pp", "2"}}) {
    Strings options{"--steps", "5", "--rate", "1e30", "--clip", "0", "--warmup", "0"};
    options.insert(options.end(), layout.begin(), layout.end());
    const Outcome o = gpt(2, options);
    EXPECT_NE(o.exit_code, 0) << o.out;
    EXPECT_THAT(o.err, HasSubstr("a logit that is not a number")) << layout[0];
  }
}

TEST_F(Program, RefusesATextThatPredictsNothing) {
  std::ofstream(in("ends")) << std::string(200, '\n');
  for (const int ranks : {1, 2}) {
    const Outcome o = gpt(ranks, {"--document-end", "10", "--data", in("ends"), "--steps", "2"});
    EXPECT_EQ(o.exit_code, 2);
    EXPECT_THAT(o.err,
                HasSubstr("step 0: there is nothing to learn: all 96 bytes of its batch (--batch 12 of --context 8) "
                          "from '" +
                          in("ends") +
                          "' are 10, which ends a document (--document-end), and the byte after the end of a "
                          "document is not predicted; expected a text with other bytes, too, or another "
                          "--document-end (-1: none)"));
  }
}

TEST_F(Program, GoesOnWithTheSameModelOnly) {
  ASSERT_EQ(gpt(1, {"--layers", "3", "--steps", "2", "--save", in("saved")}).exit_code, 0);
  const Outcome o = gpt(1, {"--layers", "2", "--steps", "4", "--resume", in("saved")});
  EXPECT_EQ(o.exit_code, 2) << o.out;
  EXPECT_THAT(o.err, AllOf(HasSubstr("is of a model of layers 3"), HasSubstr("asked for is one of layers 2")));
}

TEST_F(Program, TakesScheduleFiles_AndSaysWhatIsWrongWithThem) {
  const auto run = [&](const std::string& rows) {
    std::ofstream(in("s.csv")) << rows;
    return gpt(2, {"--layers", "2", "--pp", "2", "--micro-batches", "2", "--steps", "2", "--schedule", in("s.csv")});
  };
  EXPECT_EQ(run("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n").exit_code, 0);
  EXPECT_THAT(run("0F0,0F1,0B0,0B1\n1F0,1F1,1B0\n").err, HasSubstr("1B1"));
  EXPECT_THAT(run("0F0,0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n").err, HasSubstr("line 1, cell 2: 0F0 a second time"));
  EXPECT_THAT(run("0B0,0F0,0F1,0B1\n1F0,1F1,1B0,1B1\n").err, HasSubstr("deadlock"));
  EXPECT_THAT(run(",\n0F0,0F1,1F0,1F1,1B1,0B1,1B0,0B0\n").err, HasSubstr("rank 0 has no stage"));
  EXPECT_LT(run(std::string(100000, 'Q')).err.size(), 2000U);
}

}  // namespace
}  // namespace gpt::test
