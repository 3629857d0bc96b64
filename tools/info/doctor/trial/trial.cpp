#include "trial.hpp"

#include <cstdint>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>

#include "rule_trial.hpp"

namespace sinew::doctor {
namespace {

/// What a rank says in a round: its bytes for the others, or that it comes to no other one.
enum class Word : std::uint8_t { GoesOn, GaveUp, IsDone };

/// The rounds of an exchange while a World is made of it. A rank that fails says so in its next round, which is the
/// last one of all: so nobody waits in a round to which another does not come.
class Rounds {
 public:
  explicit Rounds(const Exchange& below) : below_(below) {}

  Exchange exchange() {
    Exchange made = below_;
    made.all_gather = [this](const Bytes& mine) { return gather(Word::GoesOn, mine); };
    return made;
  }
  /// The last round, unless it was.
  void end(Word word, const std::string& why) {
    if (over_) return;
    WireWriter text;
    text.text(why);
    static_cast<void>(gather(word, text.take()));
  }
  void add(TrialFault fault) {
    if (faults_.empty()) faults_.push_back(std::move(fault));
  }
  std::vector<TrialFault> faults() { return std::move(faults_); }

 private:
  std::vector<Bytes> gather(Word word, const Bytes& mine) {
    WireWriter to;
    to.value(word).bytes(mine);
    over_ = true;  // if this throws
    std::vector<Bytes> all = below_.all_gather(to.take());
    over_ = word != Word::GoesOn;
    for (std::size_t r = 0; r < all.size(); ++r) {
      WireReader from(all[r]);
      const auto said = from.value<Word>();
      all[r] = from.owned_bytes();
      if (said == Word::GaveUp) faults_.push_back({static_cast<int>(r), WireReader(all[r]).text()});
    }
    if (word == Word::GoesOn && !faults_.empty()) {
      over_ = true;
      throw Error(Code::Aborted, fmt::format("rank {} gave up: {}", faults_.front().rank, faults_.front().why));
    }
    return all;
  }

  const Exchange& below_;
  std::vector<TrialFault> faults_;
  bool over_ = false;
};

}  // namespace

std::vector<TrialFault> try_world(const Launch& launch, const Config& config) {
  Rounds rounds(launch.exchange);
  std::vector<TrialFault> refused;
  try {
    World world = World::create(rounds.exchange(), {.config = config, .secret = launch.secret});
    world.communicator().barrier().wait().require();
    // Equal on all ranks, as their choices are.
    for (const std::string& why : refused_by_rules(world.communicator(), config)) refused.push_back({kAllRanks, why});
    rounds.end(Word::IsDone, "");
  } catch (const std::exception& error) {
    try {
      rounds.end(Word::GaveUp, error.what());
      rounds.add({launch.exchange.rank, error.what()});
    } catch (const std::exception& lost) {
      rounds.add({launch.exchange.rank, lost.what()});
    }
  }
  std::vector<TrialFault> faults = rounds.faults();
  return faults.empty() ? refused : faults;
}

}  // namespace sinew::doctor
