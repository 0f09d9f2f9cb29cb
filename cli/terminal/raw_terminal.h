// The terminal at standard input in raw mode: every key is the remote program's. As it was again
// when this object goes, and when a signal ends the process first. One at a time, main thread.
#pragma once

#include "launcher/os/fd.h"

namespace muster {

struct WindowSize {  // 0: it does not say
  int rows = 0;
  int columns = 0;
};
WindowSize input_size();

class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;

  // As it was, from here on: for what this process itself has to say.
  void leave();

  // Readable when its size has changed, until `resized` was called, which gives the present one.
  int descriptor() const { return changes_.get(); }
  WindowSize resized();

 private:
  Fd changes_;
  bool is_raw_ = true;
};

}  // namespace muster
