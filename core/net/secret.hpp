#pragma once

#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// A job's secret of 32 bytes, from the operating system's generator.
SINEW_API Bytes random_secret();

/// The secret that a file's content stands for: SHA-256 of it without trailing newlines.
/// Errors: Error{InvalidArgument} naming the file if it cannot be read, is no regular file of this user, lets other
///         users in (any bit of 0077), or holds fewer than 16 bytes or more than 4096.
SINEW_API Bytes secret_from_file(const std::string& path);

/// A name that only processes with this secret can work out, for sockets that other users can see: hexadecimal digits.
/// Equal secrets and texts give equal names.
SINEW_API std::string secret_name(const Bytes& secret, std::string_view text);

}  // namespace sinew
