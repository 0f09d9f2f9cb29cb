#include "launcher/transport/stream_link.h"

#include "launcher/transport/link/byte_stream.h"

namespace muster {
namespace {

class StreamLink final : public Link {
 public:
  StreamLink(boost::asio::local::stream_protocol::socket socket, std::string peer)
      : stream_(std::make_shared<ByteStream>(std::move(socket))), peer_(std::move(peer)) {}
  ~StreamLink() override { stream_->close(); }

  void start(Handlers handlers) override {
    auto on_end = [peer = peer_,
                   on_closed = std::move(handlers.on_closed)](const std::string& reason) {
      if (!on_closed) return;
      on_closed({LinkFailureKind::lost, peer + ": the agent closed the connection" +
                                            (reason.empty() ? "" : ": " + reason)});
    };
    stream_->start({std::move(handlers.on_bytes), [] {}, std::move(on_end)});
  }

  void write(std::string bytes) override { stream_->write(std::move(bytes)); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }

 private:
  std::shared_ptr<ByteStream> stream_;
  std::string peer_;
};

}  // namespace

std::unique_ptr<Link> make_stream_link(boost::asio::local::stream_protocol::socket socket,
                                       const std::string& peer) {
  return std::make_unique<StreamLink>(std::move(socket), peer);
}

}  // namespace muster
