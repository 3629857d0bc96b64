#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include <sinew/collectives/launch/pmi1_client.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/parse_number.hpp>

namespace sinew {
namespace {

std::map<std::string, std::string, std::less<>> split_fields(std::string_view line) {
  std::map<std::string, std::string, std::less<>> fields;
  while (!line.empty()) {
    const std::size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
      fields.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    line = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
  }
  return fields;
}

}  // namespace

Pmi1Client::Pmi1Client(int descriptor, Deadline deadline) : descriptor_(descriptor) {
  ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);
  const Fields maxes = ask("cmd=get_maxes", "maxes", deadline);
  const auto limit = maxes.find("vallen_max");
  if (limit != maxes.end()) longest_value_ = parse_number<std::size_t>(limit->second).value_or(0);
  const Fields name = ask("cmd=get_my_kvsname", "my_kvsname", deadline);
  if (const auto it = name.find("kvsname"); it != name.end()) key_space_ = it->second;
  if (key_space_.empty() || longest_value_ < 16) {
    throw Error(Code::Unavailable,
                fmt::format("PMI_FD={}: the server names no key space for values of useful length", descriptor_));
  }
}

void Pmi1Client::put(const std::string& key, const std::string& value, Deadline deadline) {
  ask(fmt::format("cmd=put kvsname={} key={} value={}", key_space_, key, value), "put_result", deadline);
}

std::string Pmi1Client::get(const std::string& key, Deadline deadline) {
  Fields answer = ask(fmt::format("cmd=get kvsname={} key={}", key_space_, key), "get_result", deadline);
  return answer["value"];
}

void Pmi1Client::barrier(Deadline deadline) { ask("cmd=barrier_in", "barrier_out", deadline); }

void Pmi1Client::finalize(Deadline deadline) { ask("cmd=finalize", "finalize_ack", deadline); }

Pmi1Client::Fields Pmi1Client::ask(const std::string& request, std::string_view answer, Deadline deadline) {
  const std::string_view shown = std::string_view(request).substr(0, request.find(" value="));  // it may be a secret
  const std::string line = request + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) throw_errno(fmt::format("PMI_FD={}: asking the launcher '{}'", descriptor_, shown));
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  Fields fields = split_fields(read_line(deadline));
  if (fields["cmd"] != answer) {
    throw Error(Code::Unavailable, fmt::format("PMI_FD={}: the launcher answers '{}' to '{}', expected '{}'",
                                               descriptor_, fields["cmd"], shown, answer));
  }
  if (const auto rc = fields.find("rc"); rc != fields.end() && rc->second != "0") {
    throw Error(Code::Unavailable, fmt::format("PMI_FD={}: the launcher refuses '{}': rc={} {}", descriptor_, shown,
                                               rc->second, fields["msg"]));
  }
  return fields;
}

std::string Pmi1Client::read_line(Deadline deadline) {
  std::string line;
  for (;;) {
    pollfd wait{descriptor_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, deadline.left_ms(60000));
    if (ready == 0 && deadline.passed()) {
      throw Error(Code::Timeout,
                  fmt::format("PMI_FD={}: no answer from the launcher before the deadline: ranks did not "
                              "come, PMI does not say which",
                              descriptor_));
    }
    if (ready < 0 && errno != EINTR) throw_errno("waiting for the launcher's answer on PMI_FD");
    if (ready <= 0) continue;
    char c = 0;  // one at a time: what follows the line belongs to MPI
    const ssize_t got = ::read(descriptor_, &c, 1);
    if (got == 0) throw Error(Code::System, fmt::format("PMI_FD={}: the launcher closed it", descriptor_));
    if (got < 0 && errno != EINTR) throw_errno(fmt::format("PMI_FD={}: reading the launcher's answer", descriptor_));
    if (got <= 0) continue;
    if (c == '\n') return line;
    line += c;
  }
}

}  // namespace sinew
