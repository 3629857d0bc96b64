#include <cstdint>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/planner/model/model_json.hpp>
#include <sinew/parallel/planner/model/model_weights.hpp>
#include <sinew/parallel/planner/model/named_models.hpp>

namespace sinew::parallel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What their authors, or the files that they published, say: the Hugging Face hub counts the tensors of each.
TEST(ModelShape, CountsParametersAsPublished) {
  const std::pair<const char*, std::int64_t> published[] = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},
      {"mixtral-8x7b", 46'702'792'704},
      {"deepseek-v3", 671'026'419'200},
  };
  for (const auto& [name, count] : published) EXPECT_EQ(parameter_count(named_model(name)), count) << name;
}

/// Brown et al. round: 125M, 350M, 760M, 1.3B, 2.7B, 6.7B, 13B, 175B.
TEST(ModelShape, CountsGpt3WithinItsRounding) {
  const std::pair<const char*, double> rounded[] = {
      {"gpt3-125m", 125e6}, {"gpt3-350m", 350e6}, {"gpt3-760m", 760e6}, {"gpt3-1.3b", 1.3e9},
      {"gpt3-2.7b", 2.7e9}, {"gpt3-6.7b", 6.7e9}, {"gpt3-13b", 13e9},   {"gpt3-175b", 175e9},
  };
  for (const auto& [name, count] : rounded)
    EXPECT_NEAR(static_cast<double>(parameter_count(named_model(name))) / count, 1, 0.03) << name;
  EXPECT_EQ(parameter_count(named_model("gpt3-175b")), 174'604'259'328);
}

/// 12.9 and 37 billion, say Jiang et al. and DeepSeek-AI.
TEST(ModelShape, CountsWhatATokenUses) {
  EXPECT_EQ(active_parameter_count(named_model("mixtral-8x7b")), 12'879'925'248);
  EXPECT_EQ(active_parameter_count(named_model("deepseek-v3")), 37'552'297'472);
  EXPECT_EQ(active_parameter_count(named_model("llama3-8b")), 8'030'261'248);
}

TEST(ModelShape, PartsOfARankAddUp) {
  const ModelShape model = named_model("llama3-70b");
  std::int64_t cut = 0;
  for (int r = 0; r < 8; ++r) cut += elements_of(layer_weights(model, 0, {r, 8, 1}));
  // All but two norms of 8,192, which each has.
  EXPECT_EQ(cut, elements_of(layer_weights(model, 0)) + 7 * 2 * 8192);
  const ModelShape mixed = named_model("mixtral-8x7b");
  EXPECT_EQ(elements_of(layer_weights(mixed, 0, {0, 1, 4})),
            elements_of(layer_weights(mixed, 0)) - 6 * 3 * std::int64_t{4096} * 14336);
}

constexpr const char* kSmall = R"({"layers": 4, "hidden": 64, "heads": 4, "feed_forward": 256, "vocabulary": 100,
                                   "context": 32, "tied": true})";

TEST(ModelFile, IsRead_NamedByTheFile) {
  const ModelShape model = model_from_json(kSmall, "folder/small.json");
  EXPECT_EQ(model.name, "small");
  EXPECT_EQ(model.layers, 4);
  EXPECT_TRUE(model.tied);
  EXPECT_EQ(model.shared_heads(), 4);
  EXPECT_EQ(model.width_of_head(), 16);
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(model_from_json(text, "m.json"));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "taken";
}

std::string with(std::string from, const std::string& what, const std::string& by) {
  return from.replace(from.find(what), what.size(), by);
}

TEST(ModelFile, NamesWhatIsMissing_WithTheFile) {
  EXPECT_THAT(refusal(with(kSmall, R"("hidden": 64, )", "")),
              AllOf(HasSubstr("m.json"), HasSubstr("hidden: is absent, expected a whole number of 1 or more")));
  EXPECT_THAT(refusal("{}"), AllOf(HasSubstr("layers"), HasSubstr("heads"), HasSubstr("feed_forward"),
                                   HasSubstr("vocabulary"), HasSubstr("context")));
}

TEST(ModelFile, NamesWrongTypesRangesAndMembers) {
  EXPECT_THAT(refusal(with(kSmall, "64", R"("64")")), HasSubstr(R"(hidden: "64", expected a whole number)"));
  EXPECT_THAT(refusal(with(kSmall, "64", "6.5")), HasSubstr("hidden: 6.5, expected a whole number"));
  EXPECT_THAT(refusal(with(kSmall, "64", "-64")), HasSubstr("hidden: -64, expected 1 to"));
  EXPECT_THAT(refusal(with(kSmall, "true", "1")), HasSubstr("tied: 1, expected true or false"));
  EXPECT_THAT(refusal(with(kSmall, "tied", "tide")), AllOf(HasSubstr("tide: is unknown"), HasSubstr("tied")));
  EXPECT_THAT(refusal(with(kSmall, R"("heads": 4)", R"("heads": 5)")),
              HasSubstr("heads: 5, expected a divisor of hidden 64"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("[1], expected an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
}

TEST(ModelFile, ListsAllFaultsOfExperts) {
  const std::string text = refusal(with(kSmall, R"("tied": true)", R"("experts": 4, "top_k": 5)"));
  EXPECT_THAT(text, AllOf(HasSubstr("top_k: 5, expected 1 to 4, the experts"),
                          HasSubstr("expert_feed_forward: 0, expected 1 to")));
  EXPECT_THAT(refusal(with(kSmall, R"("tied": true)", R"("top_k": 2)")),
              HasSubstr("top_k: 2, expected 0 without experts"));
}

TEST(ModelName, ThatIsUnknown_ListsThoseThatThereAre) {
  try {
    static_cast<void>(find_model("gpt5"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), AllOf(HasSubstr("gpt5"), HasSubstr("gpt3-175b"), HasSubstr("deepseek-v3")));
  }
  EXPECT_THROW(static_cast<void>(find_model("/no/such/model.json")), Error);
  EXPECT_THROW(static_cast<void>(find_model("/tmp")), Error);
}

}  // namespace
}  // namespace sinew::parallel
