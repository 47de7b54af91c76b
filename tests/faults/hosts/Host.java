/** A Java program that uses CUDA through a library, in threads and while its own compiler and collector work. */
class Host {
    static native void begin();
    static native void pairs(int count);
    static native void use();

    static long churn(int turns) {
        long sum = 0;
        for (int i = 0; i < turns; i++) {
            byte[] some = new byte[i % 1000 + 1];
            some[0] = (byte) i;
            sum += some[0] + new StringBuilder().append(i).length();
            if (i % 100 == 0)
                pairs(1);
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        begin();
        Thread[] team = new Thread[4];
        for (int i = 0; i < team.length; i++) {
            team[i] = new Thread(() -> {
                use();
                churn(50000);
            });
            team[i].start();
        }
        for (Thread thread : team)
            thread.join();
        try {
            String nothing = arguments.length > 5 ? "" : null;
            System.out.println(nothing.length());
        } catch (NullPointerException error) {
            System.out.println("caught"); // the machine turns a SIGSEGV into this
        }
        System.out.println("sum " + churn(50000));
    }
}
