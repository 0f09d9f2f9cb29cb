#include "launcher/agent/container/container.h"

#include <unistd.h>

namespace muster {

void Container::watch(Handlers handlers) {
  handlers_ = std::move(handlers);
  wait();
}

void Container::forget() {
  handlers_ = {};
  boost::system::error_code ignored;
  watch_.close(ignored);
}

void Container::wait() {
  boost::system::error_code ignored;
  if (watch_.is_open()) watch_.close(ignored);
  watch_.assign(::dup(holder_.descriptor()), ignored);
  watch_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const boost::system::error_code& failed) {
                      if (!failed && self->handlers_.on_gone) self->look();
                    });
}

// A handler may be the end of all of them.
void Container::look() {
  if (!is_ready_ && holder_.has_come()) {
    is_ready_ = true;
    handlers_.on_ready(holder_.pid());
  }
  for (const Holder::Ended& ended : holder_.read()) {
    if (handlers_.on_ended) handlers_.on_ended(ended);
  }
  if (!handlers_.on_gone) return;
  if (!holder_.is_gone()) return wait();
  handlers_.on_gone();
}

}  // namespace muster
