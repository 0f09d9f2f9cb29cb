// A board whose controller is a script: in PATH as ipmitool, with a file in place of the device.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "tests/health/fake_host.h"

namespace muster {

class FakeBoard {
 public:
  // Of sh, with the words of the question in "$*".
  explicit FakeBoard(const std::string& script) : path_(std::getenv("PATH")) {
    root_.write("/dev/ipmi0", "");
    root_.write("/bin/ipmitool", "#!/bin/sh\n" + script + "\n");
    ::chmod(root_.below("/bin/ipmitool").c_str(), 0755);
    ::setenv("PATH", (root_.path() + "/bin:" + path_).c_str(), 1);
  }
  FakeBoard(const FakeBoard&) = delete;
  FakeBoard& operator=(const FakeBoard&) = delete;
  ~FakeBoard() { ::setenv("PATH", path_.c_str(), 1); }

  const FakeRoot& root() const { return root_; }

 private:
  FakeRoot root_;
  std::string path_;
};

}  // namespace muster
