#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <support/run_program.hpp>

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Outcome train(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {SINEW_SIM, "train"});
  return run_program(arguments, {});
}

/// A file for the time of a test.
class ModelFile {
 public:
  explicit ModelFile(const std::string& text) : name_(testing::TempDir() + "train_test_model.json") {
    std::ofstream(name_) << text;
  }
  ~ModelFile() { std::remove(name_.c_str()); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
};

TEST(SinewSimTrain, RanksLayouts_AndSaysWhyOthersLose) {
  const Outcome o = train({"--model", "gpt2-xl", "--cluster", "dgx-h100x2", "--global-batch", "64", "--json"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_EQ(o.err, "");
  const auto json = nlohmann::json::parse(o.out);
  EXPECT_EQ(json["parameters"], 1557611200);
  EXPECT_EQ(json["ranks"], 16);
  ASSERT_EQ(json["layouts"].size(), 10U);
  double last = 0;
  for (const auto& l : json["layouts"]) {
    EXPECT_GE(double(l["step_s"]), last);
    last = l["step_s"];
    EXPECT_EQ(int(l["tp"]) * int(l["pp"]) * int(l["dp"]) * int(l["cp"]), 16);
    EXPECT_LE(double(l["memory_bytes"]["total"]), double(json["memory_bytes"]));
    double sum = 0;
    for (const auto& [name, seconds] : l["time_s"].items()) sum += double(seconds);
    EXPECT_NEAR(sum, double(l["step_s"]), 1e-9);
  }
  ASSERT_GT(json["losers"].size(), 2U);
  std::vector<std::string> limits;
  for (const auto& l : json["losers"]) limits.push_back(l["limit"]);
  EXPECT_THAT(limits, testing::IsSupersetOf({"schedule", "tensor exchanges", "recomputation"}));
}

TEST(SinewSimTrain, PrintsATable) {
  const Outcome o = train({"--model", "llama3-8b", "--cluster", "dgx-h100x2", "--top", "3"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_THAT(o.out, AllOf(HasSubstr("llama3-8b (8.03e+09 parameters) on dgx-h100x2: 16 ranks"), HasSubstr("MFU"),
                           HasSubstr("H100 SXM5 datasheet"), HasSubstr("nearest fix: ")));
}

TEST(SinewSimTrain, ExplainsOneLayout) {
  const Outcome o = train({"--model", "gpt3-175b", "--cluster", "dgx-h100x64", "--layout",
                           "tp=8,pp=8,zero=1,micro-batch=1,schedule=interleaved,virtual-stages=2,recompute=selective"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("tp 8 pp 8 dp 8 cp 1, zero 1"), HasSubstr("activations"), HasSubstr("bubble"),
                           HasSubstr("sums of gradients")));
}

TEST(SinewSimTrain, ListsTheExchangesOfOneLayout) {
  const std::vector<std::string> layout{"--model",   "gpt3-175b",
                                        "--cluster", "dgx-h100x64",
                                        "--layout",  "tp=8,pp=8,zero=1,micro-batch=1,recompute=selective"};
  std::vector<std::string> explained = layout, as_json = layout;
  explained.emplace_back("--explain");
  const Outcome o = train(explained);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out,
              AllOf(HasSubstr("exchanges of data parallelism\ncp-dp: "), HasSubstr("merged reduce_scatter over cp-dp"),
                    HasSubstr("exchanges of a layer that 8 ranks share"), HasSubstr("removed all_to_all over tp"),
                    HasSubstr(" us saved\n")));
  EXPECT_EQ(train(layout).out.find("removed all_to_all"), std::string::npos);
  as_json.insert(as_json.end(), {"--explain", "--json"});
  EXPECT_NE(train(as_json).exit_code, 0) << "the list is for people";
}

TEST(SinewSimTrain, ListsEveryRuleThatALayoutBreaks) {
  const Outcome o = train({"--model", "gpt2", "--cluster", "dgx-h100x2", "--layout", "tp=16,pp=3,zero=7"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, AllOf(HasSubstr("breaks 3 rules:\n  dense: 16 ranks"), HasSubstr("engine_parts: tp 16"),
                           HasSubstr("zero: zero 7, of 0 to 3; expected zero 3")));
}

TEST(SinewSimTrain, ExitsWithOne_WhereNothingFits) {
  const Outcome o = train({"--model", "gpt3-175b", "--cluster", "dgx-h100x1", "--memory", "1GiB"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_THAT(o.out, HasSubstr("memory with recompute full"));
}

TEST(SinewSimTrain, ReadsAModelOfAFile_AndNamesWhatIsWrongThere) {
  const ModelFile good(
      R"({"layers": 4, "hidden": 64, "heads": 4, "feed_forward": 256, "vocabulary": 100, "context": 32})");
  EXPECT_EQ(train({"--model", good.name(), "--cluster", "xeon-2sx2", "--global-batch", "8"}).exit_code, 0);
  const ModelFile bad(R"({"layers": 4, "heads": 4, "feed_forward": 256, "vocabulary": "many", "context": 32})");
  const Outcome o = train({"--model", bad.name(), "--cluster", "xeon-2sx2"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, AllOf(HasSubstr(bad.name()), HasSubstr("hidden: is absent"),
                           HasSubstr(R"(vocabulary: "many", expected a whole number)")));
}

TEST(SinewSimTrain, SaysWhatThereIs_InThePlaceOfUnknownNames) {
  Outcome o = train({"--model", "gpt5", "--cluster", "dgx-h100x2"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, AllOf(HasSubstr("gpt5"), HasSubstr("llama3-405b")));
  o = train({"--model", "gpt2", "--cluster", "dgx-z9x2"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("dgx-h100"));
  for (const auto& [option, value] : {std::pair("--efficiency", "3"),
                                      {"--memory", "0"},
                                      {"--flops", "fast"},
                                      {"--global-batch", "0"},
                                      {"--top", "0"},
                                      {"--sequence", "4000"}}) {
    o = train({"--model", "gpt2", "--cluster", "dgx-h100x2", option, value});
    EXPECT_EQ(o.exit_code, 2) << option;
    EXPECT_THAT(o.err, HasSubstr("xpected")) << option;
  }
}

TEST(SinewSimTrain, TriesZeroPlusPlus_AndNamesIt) {
  Outcome o = train({"--model", "llama3-8b", "--cluster", "dgx-h100x8", "--top", "3", "--zero++", "--json"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  const auto best = nlohmann::json::parse(o.out)["layouts"][0];
  EXPECT_EQ(best["zero"], 3);
  EXPECT_EQ(best["weights"], "int8");
  EXPECT_GT(best["traffic_bytes"]["total"], 0);
  o = train({"--model", "gpt2-xl", "--cluster", "dgx-h100x2", "--layout", "zero=3,weights=int8,gradients=int4,near=8"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("weights int8, gradients int4, near 8"), HasSubstr("to other hosts: weights ")));
  o = train({"--model", "gpt2", "--cluster", "dgx-h100x1", "--zero++"});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("ZeRO++ on 1 host of 8 ranks, expected 2 or more hosts"));
}

TEST(SinewSimTrain, SaysHowStagesAreGathered) {
  const std::vector<std::string> layout{
      "--model",    "llama3-8b", "--cluster",
      "dgx-h100x2", "--layout",  "tp=4,pp=2,zero=3,schedule=interleaved,virtual-stages=4,budget=3GiB"};
  std::vector<std::string> with = layout;
  with.emplace_back("--stage-actions");
  Outcome o = train(with);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("budget 3GiB"), HasSubstr("of 4 stages of a rank at a time, gradients summed")));
  o = train(layout);
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("prefetch: a limit of 3221225472 bytes"));
}

TEST(SinewSimTrain, PlansAStore) {
  Outcome o = train({"--model", "mamba2-2.7b", "--cluster", "dgx-h100x1", "--layout", "zero=3,micro-batch=8",
                     "--offload-activations", "layers", "--offload-shards", "--store-rate", "50e9",
                     "--recompute-layers", "layers.3=full,layers.4=full"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("in the store of a rank "), HasSubstr("copies to the store and back "),
                           HasSubstr("recomputation")));
  for (const auto& [arguments, said] :
       {std::pair(std::vector<std::string>{"--offload-shards"}, "offload to a store of 0 bytes a second"),
        {{"--offload-activations", "layers.99", "--store-rate", "1e9"}, "'layers.99' names no layer"},
        {{"--recompute-layers", "layers.3"}, "--recompute-layers layers.3: expected NAME=none"},
        {{"--store", "0"}, "--store 0: expected a size"}}) {
    std::vector<std::string> all{"--model", "gpt2", "--cluster", "dgx-h100x1"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    o = train(all);
    EXPECT_EQ(o.exit_code, 2) << said;
    EXPECT_THAT(o.err, HasSubstr(said));
  }
}

TEST(SinewSimTrain, Teaches) {
  const Outcome o = train({"--help"});
  EXPECT_EQ(o.exit_code, 0);
  EXPECT_THAT(o.out, AllOf(HasSubstr("sinew-sim train --model gpt3-175b --cluster dgx-h100x64"), HasSubstr("--layout"),
                           HasSubstr("deepseek-v3")));
}

}  // namespace
}  // namespace sinew::test
