/*
 * script/address.c - which addresses are somebody else's on the internet. See address.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static bool is_public_4(uint32_t a)
{
    static const struct {
        uint32_t first;
        unsigned bits;
    } ours[] = {
        {0x00000000, 8},  /* this network           */
        {0x0A000000, 8},  /* private                */
        {0x64400000, 10}, /* shared, behind a carrier */
        {0x7F000000, 8},  /* loopback               */
        {0xA9FE0000, 16}, /* link-local             */
        {0xAC100000, 12}, /* private                */
        {0xC0000000, 24}, /* protocol assignments   */
        {0xC0A80000, 16}, /* private                */
        {0xC6120000, 15}, /* benchmarks             */
        {0xE0000000, 4},  /* multicast              */
        {0xF0000000, 4},  /* reserved, broadcast    */
    };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (a >> (32 - ours[i].bits) == ours[i].first >> (32 - ours[i].bits))
            return false;
    return true;
}

static uint32_t four(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static bool is_public_6(const uint8_t a[16])
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    static const uint8_t translated[12] = {0, 0x64, 0xFF, 0x9B};
    if (memcmp(a, mapped, 12) == 0 || memcmp(a, translated, 12) == 0)
        return is_public_4(four(a + 12));
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return is_public_4(four(a + 2));
    return (a[0] & 0xE0) == 0x20; /* global unicast: 2000::/3 */
}

bool address_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return is_public_4(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family == AF_INET6)
        return is_public_6(((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
    return false;
}
