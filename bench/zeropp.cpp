// Counts the bytes that gpt sends between hosts in a step, once with plain zero3 and once with ZeRO++. ZeRO++ is int8
// weights, near copies and int4 gradients. The ranks are threads on two virtual hosts of two ranks each. The program
// takes the options of gpt. It prints a line of JSON: the bytes of all ranks together, and the share that ZeRO++ sends.
// Try: zeropp --dtype bf16 --gradient-dtype bf16
#include <cstdint>
#include <cstdio>
#include <gpt/text/text.hpp>
#include <gpt/train/options.hpp>
#include <gpt/train/trainer.hpp>
#include <gpt/train/training.hpp>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>

namespace {

constexpr int kNear = 2;  // ranks of a host
constexpr const char* kHosts = "xeon-2s:2+2";

/// The options of the command line, then `more`.
gpt::Options options_of(int argc, char** argv, const std::vector<std::string>& more) {
  std::vector<std::string> words(argv, argv + argc);
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> texts;
  for (std::string& word : words) texts.push_back(word.data());
  return gpt::read_options(static_cast<int>(texts.size()), texts.data());
}

/// Bytes that this rank has sent to other hosts so far.
std::uint64_t sent_far(const sinew::World& world) {
  const std::vector<std::uint64_t> all = world.sent_bytes();
  std::uint64_t sum = 0;
  for (int r = 0; r < world.size(); ++r)
    sum += r / kNear == world.rank() / kNear ? 0 : all[static_cast<std::size_t>(r)];
  return sum;
}

/// Bytes of the second step, all ranks together. They include losses and norms, which are a few bytes.
std::uint64_t bytes_between_hosts(const gpt::Options& options) {
  const gpt::Text text = gpt::text_of(options);
  sinew::WorldOptions counting{};
  counting.count_sent = true;
  std::uint64_t bytes = 0;
  sinew::run_virtual_ranks(sinew::make_virtual_world(sinew::virtual_cluster_from(kHosts)), counting,
                           [&](sinew::World& world) {
                             gpt::Trainer trainer(world, options, text);
                             trainer.step(0);
                             const std::uint64_t before = sent_far(world);
                             trainer.step(1);
                             std::vector<std::uint64_t> sent{sent_far(world) - before};
                             world.communicator().all_reduce(sent).get();
                             if (world.rank() == 0) bytes = sent[0];
                           });
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> zero3{"--zero", "3"};
    std::vector<std::string> quantised = zero3;
    quantised.insert(quantised.end(), {"--weights", "int8", "--int4", "--near", std::to_string(kNear)});
    const std::uint64_t plain = bytes_between_hosts(options_of(argc, argv, zero3));
    const std::uint64_t small = bytes_between_hosts(options_of(argc, argv, quantised));
    fmt::print("{{\"zero3_bytes\": {}, \"zeropp_bytes\": {}, \"share\": {:.6f}}}\n", plain, small,
               static_cast<double>(small) / static_cast<double>(plain));
    return 0;
  } catch (const gpt::NoRun& e) {
    fmt::print(stderr, "{}", e.text);
    return e.code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "zeropp: {}\n", e.what());
    return 1;
  }
}
