#include "tournament.hpp"

namespace sinew::doctor {

int tournament_rounds(int players) noexcept { return players < 2 ? 0 : players - 1 + players % 2; }

int tournament_partner(int round, int player, int players) noexcept {
  const int turning =
      tournament_rounds(players);  // odd; the one that stays is player number `turning`, if there is one
  int partner = 0;
  if (player == turning) {
    partner = round * ((turning + 1) / 2) % turning;  // it meets who would meet himself: 2 p = round
  } else {
    partner = (round - player + turning) % turning;
    if (partner == player) partner = turning;
  }
  return partner < players ? partner : -1;
}

}  // namespace sinew::doctor
