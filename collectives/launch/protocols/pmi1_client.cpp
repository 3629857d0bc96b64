#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/launch/protocols/pmi1_client.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/stream_socket.hpp>

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

/// A connection to PMI_PORT's "HOST:PORT". Errors: InvalidArgument; Unavailable with every address that was tried.
FileDescriptor connect_to(const std::string& port, Deadline deadline) {
  const std::size_t colon = port.rfind(':');
  const auto number =
      colon == std::string::npos ? std::nullopt : parse_number<std::uint16_t>(std::string_view(port).substr(colon + 1));
  if (!number || *number == 0 || colon == 0) {
    throw Error(Code::InvalidArgument, fmt::format("PMI_PORT={}: expected HOST:PORT", port));
  }
  std::string tried;
  for (const SocketAddress& address : SocketAddress::resolve(port.substr(0, colon), *number)) {
    auto [socket, error] = try_connect({address}, deadline);
    if (error == 0) return std::move(socket);
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", address.text(), std::strerror(error));
  }
  throw Error(Code::Unavailable, fmt::format("PMI_PORT={}: the launcher cannot be reached ({})", port, tried));
}

}  // namespace

Pmi1Client::Pmi1Client(int descriptor, Deadline deadline)
    : descriptor_(descriptor), line_(fmt::format("PMI_FD={}", descriptor)) {
  open_key_space(deadline);
}

Pmi1Client::Pmi1Client(const std::string& port, int id, Deadline deadline)
    : owned_(connect_to(port, deadline)), descriptor_(owned_.get()), line_("PMI_PORT=" + port) {
  ask(fmt::format("cmd=initack pmiid={}", id), "initack", deadline);
  ranks_ = read_setting("size", deadline);
  rank_ = read_setting("rank", deadline);
  read_setting("debug", deadline);
  if (rank_ >= ranks_) {
    throw Error(Code::Unavailable,
                fmt::format("{}: the launcher says that PMI_ID={} is rank {} of {}", line_, id, rank_, ranks_));
  }
  open_key_space(deadline);
}

void Pmi1Client::open_key_space(Deadline deadline) {
  ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);
  const Fields maxes = ask("cmd=get_maxes", "maxes", deadline);
  const auto limit = maxes.find("vallen_max");
  if (limit != maxes.end()) longest_value_ = parse_number<std::size_t>(limit->second).value_or(0);
  const Fields name = ask("cmd=get_my_kvsname", "my_kvsname", deadline);
  if (const auto it = name.find("kvsname"); it != name.end()) key_space_ = it->second;
  if (key_space_.empty() || longest_value_ < 16) {
    throw Error(Code::Unavailable, fmt::format("{}: the server names no key space for values of useful length", line_));
  }
}

void Pmi1Client::put(const std::string& key, const std::string& value, Deadline deadline) {
  ask(fmt::format("cmd=put kvsname={} key={} value={}", key_space_, key, value), "put_result", deadline);
}

std::string Pmi1Client::get(const std::string& key, Deadline deadline) {
  Fields answer = ask(fmt::format("cmd=get kvsname={} key={}", key_space_, key), "get_result", deadline);
  return answer["value"];
}

void Pmi1Client::barrier(Deadline deadline, Duration patience, std::function<void()> late) {
  late_ = std::move(late);
  late_at_ = Clock::now() + patience;
  ask("cmd=barrier_in", "barrier_out", deadline);
  late_ = nullptr;
}

void Pmi1Client::finalize(Deadline deadline) { ask("cmd=finalize", "finalize_ack", deadline); }

Pmi1Client::Fields Pmi1Client::ask(const std::string& request, std::string_view answer, Deadline deadline) {
  const std::string_view shown = std::string_view(request).substr(0, request.find(" value="));  // it may be a secret
  const std::string line = request + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) wait_until_ready(POLLOUT, deadline);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) {
      throw_errno(fmt::format("{}: asking the launcher '{}'", line_, shown));
    }
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
  }
  return read_answer(shown, answer, deadline);
}

Pmi1Client::Fields Pmi1Client::read_answer(std::string_view shown, std::string_view answer, Deadline deadline) {
  Fields fields = split_fields(read_line(deadline));
  if (fields["cmd"] != answer) {
    throw Error(Code::Unavailable, fmt::format("{}: the launcher answers '{}' to '{}', expected '{}'", line_,
                                               fields["cmd"], shown, answer));
  }
  if (const auto rc = fields.find("rc"); rc != fields.end() && rc->second != "0") {
    throw Error(Code::Unavailable,
                fmt::format("{}: the launcher refuses '{}': rc={} {}", line_, shown, rc->second, fields["msg"]));
  }
  return fields;
}

int Pmi1Client::read_setting(const char* name, Deadline deadline) {
  Fields fields = read_answer("cmd=initack", "set", deadline);
  const auto number = parse_number<int>(fields[name]);
  if (!number || *number < 0) {
    throw Error(Code::Unavailable,
                fmt::format("{}: the launcher does not set '{}' after 'cmd=initack', as PMI-1 wants", line_, name));
  }
  return *number;
}

void Pmi1Client::wait_until_ready(short events, Deadline deadline) {
  for (;;) {
    pollfd wait{descriptor_, events, 0};
    const Deadline look = late_ ? Deadline(std::min(deadline.at(), late_at_)) : deadline;
    const int ready = ::poll(&wait, 1, look.left_ms(60000));
    if (ready > 0) return;
    if (late_ && Clock::now() >= late_at_) std::exchange(late_, nullptr)();
    if (ready == 0 && deadline.passed()) {
      throw Error(Code::Timeout, fmt::format("{}: no answer from the launcher before the deadline: ranks did not "
                                             "come, PMI does not say which",
                                             line_));
    }
    if (ready < 0 && errno != EINTR) throw_errno(fmt::format("{}: waiting for the launcher's answer", line_));
  }
}

std::string Pmi1Client::read_line(Deadline deadline) {
  std::string line;
  for (;;) {
    wait_until_ready(POLLIN, deadline);
    char c = 0;  // one at a time: what follows the line belongs to MPI
    const ssize_t got = ::read(descriptor_, &c, 1);
    if (got == 0) throw Error(Code::System, fmt::format("{}: the launcher closed it", line_));
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      throw_errno(fmt::format("{}: reading the launcher's answer", line_));
    }
    if (got <= 0) continue;
    if (c == '\n') return line;
    line += c;
  }
}

}  // namespace sinew
