// Writing files that are mostly empty: blocks of zeros become holes again, as on the machine that
// the file comes from. For new files only: what is not written is taken to be zero.
#pragma once

#include <string_view>

namespace muster {

// All of `bytes` at the file's position, which moves past them; false leaves errno.
bool write_sparse(int fd, std::string_view bytes);

// The file ends at its position, also where a hole ends it.
bool end_sparse(int fd);

}  // namespace muster
