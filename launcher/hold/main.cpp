#include <cstdio>

#include "launcher/hold/protocol.h"

int main(int count, char** words) {
  if (count == 2) return muster::hold(words[1]);
  std::fputs("usage: muster-hold SOCKET (started by muster's agent)\n", stderr);
  return 2;
}
