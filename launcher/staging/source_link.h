// What becomes of a symbolic link of a source tree. Reads the file system, changes nothing.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace muster {

struct KeepLink {  // stays a link; an absolute target inside the tree is made relative
  std::string target;
};
struct CopyTarget {  // leads out of the tree: what it points to is copied in its place
  std::string real_path;
};
struct SkipLink {  // points to a directory that contains the tree
  std::string target;
};
using LinkFate = std::variant<KeepLink, CopyTarget, SkipLink>;

// `bases` are the real paths of the tree's root and of the copied directories around the link,
// innermost last; `link` is an absolute path below the last one. Dangling links are kept.
LinkFate fate_of_link(const std::vector<std::string>& bases, const std::string& link);

}  // namespace muster
