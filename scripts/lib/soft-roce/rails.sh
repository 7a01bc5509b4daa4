# shellcheck shell=bash
# Soft-RoCE rails over veth pairs; sourced inside guests and by direct runs.
#
# Rail i is the device rxe<i> on the interface r<i>, whose other end p<i> only keeps the carrier up.
# Addresses: 198.18.<i>.<node + 1> (the range of RFC 2544, so that no real network is shadowed) and
# fd10:0:0:<i>::<node + 1>.

# 4096 bytes of RDMA MTU and the largest RoCE v2 headers fit.
readonly RAIL_MTU=4200

# rails_up COUNT NODE: creates rails 0..COUNT on this machine.
rails_up() {
    local count=$1 address=$(($2 + 1)) rail
    for ((rail = 0; rail < count; rail++)); do
        ip link add "r$rail" mtu "$RAIL_MTU" type veth peer name "p$rail" mtu "$RAIL_MTU"
        ip address add "198.18.$rail.$address/24" dev "r$rail"
        ip address add "fd10:0:0:$rail::$address/64" dev "r$rail" nodad
        ip link set "p$rail" up
        ip link set "r$rail" up
        rdma link add "rxe$rail" type rxe netdev "r$rail"
    done
}

# rails_down COUNT: removes what rails_up created; missing parts are no error.
rails_down() {
    local count=$1 rail
    for ((rail = 0; rail < count; rail++)); do
        rdma link delete "rxe$rail" 2>/dev/null || true
        ip link delete "r$rail" 2>/dev/null || true
    done
}
